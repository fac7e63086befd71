"""The CustomResourceDefinitions: what they accept is what the reader accepts, as far as an object alone can show it."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from rayllm_ctl.model.kube.quantities import parse_duration
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.checks.batch import validate_batch
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.specfile import load
from rayllm_ctl.specfile.crd.definition import chart_template, definitions
from rayllm_ctl.specfile.reader import read_document
from rayllm_ctl.specfile.tree import plain, read_tree
from rayllm_ctl.specfile.write import to_document, to_yaml
from tests.model.services import services, services_of_several
from tests.specfile.crd.admission import Admission
from tests.specfile.crd.checks import Check, listed, written

ROOT = Path(__file__).parents[3]
GOLDEN = sorted(
    [
        *ROOT.glob("tests/render/specs/*.yaml"),
        *ROOT.glob("tests/render/batchspecs/*.yaml"),
        *ROOT.glob("manifests/**/llmservice.yaml"),
        *ROOT.glob("manifests/**/batchjob.yaml"),
    ]
)
WITH_FILES = {"applications": ".code", "calibrated": ".calibration", "several-models": ".calibration"}
"""Specs that name files next to them, which the controller does not have."""

CHECKS = listed()


@cache
def admission(kind: str) -> Admission:
    return Admission(next(one for one in definitions() if one["spec"]["names"]["kind"] == kind))


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = plain(read_tree(path.read_text(encoding="utf-8"), path.name))
    return found


def judged(found: Mapping[str, Any]) -> list[Problem]:
    """What the reader and the checks say of a document."""
    root = read_tree(json.dumps(found), "spec")
    if found["kind"] == "BatchJob":
        batch, problems = read_document(root, BatchJob)
        return problems if batch is None else validate_batch(batch)
    service, problems = read_document(root, LLMService)
    return problems if service is None else validate(service)


def test_the_chart_has_the_definitions() -> None:
    template = ROOT / "charts" / "rayllm-operator" / "templates" / "crds.yaml"
    assert template.read_text(encoding="utf-8") == chart_template(), "run scripts/crds.py"


def test_every_check_is_in_the_list() -> None:
    assert Counter((check.at, check.rule) for check in CHECKS) == Counter(written())
    assert {check.where for check in CHECKS} == {"admission", "condition", "nowhere"}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.at}: {check.rule}"[:80])
def test_a_spec_that_violates_a_check_is_stopped_where_the_list_says(check: Check) -> None:
    if check.document is None:
        assert check.where in ("condition", "nowhere")
        return
    assert any(check.says(problem.message) for problem in judged(check.document)), judged(check.document)
    assert admission(check.document["kind"]).rejects(check.document) == (check.where == "admission")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_good_spec_is_accepted(path: Path) -> None:
    found = document(path)
    problems = admission(found["kind"]).problems(found)
    if path.stem in WITH_FILES:
        assert [problem.partition(":")[0].endswith(WITH_FILES[path.stem]) for problem in problems] == [True]
    else:
        assert problems == []


@settings(max_examples=10)
@given(services() | services_of_several())
def test_what_is_written_is_accepted(service: LLMService) -> None:
    assert admission("LLMService").problems(json.loads(json.dumps(to_document(service)))) == []


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_unknown_field_is_accepted(path: Path) -> None:
    """In no section, whatever the reader says of it."""
    found = document(path)
    checked = 0
    for place in sections(found["spec"], ("spec",)):
        changed = copy.deepcopy(found)
        section: Any = changed
        for part in place:
            section = section[part]
        section["unknownField"] = 1
        if any(problem.message == "unknown field" for problem in judged(changed)):
            checked += 1
            assert admission(found["kind"]).rejects(changed), place
    assert checked > 0


def sections(value: Any, at: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        yield at
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from sections(item, (*at, key))


SPEC = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: q}\nspec:\n  model: {id: m}\n"


def said(text: str) -> list[str]:
    found = plain(read_tree(SPEC + text, "q.yaml"))
    return admission("LLMService").problems(found)


def test_null_is_what_the_reader_takes_it_for() -> None:
    nothing = "  engine:\n  storage:\n    volumes:\n  replicas: {count: null, min: 1, max: 2, initial: null}\n"
    assert said(nothing) == []
    assert load(SPEC + nothing, source="q.yaml").replicas.max == 2
    default = "  exposure: {gateway: {name: g, requestTimeout: null}}\n"
    assert said(default) == []
    gateway = load(SPEC + default, source="q.yaml").exposure.gateway
    assert gateway is not None
    assert gateway.request_timeout is None
    [timeout] = nullable(definitions()[0])
    assert timeout == "requestTimeout"


def nullable(schema: Any, name: str = "") -> Iterator[str]:
    if isinstance(schema, dict):
        if schema.get("nullable"):
            yield name
        for key, value in schema.items():
            yield from nullable(value, key)
    elif isinstance(schema, list):
        for value in schema:
            yield from nullable(value, name)


def test_a_number_with_a_fraction_is_written_as_a_string() -> None:
    """The one form of the file that a custom resource cannot have, and that rayllm-ctl does not write."""
    service = load(SPEC + "  load: {ttft: 0.5, tpot: 0.00001}\n  resources: {head: {cpu: 0.5}}\n", source="q.yaml")
    assert len(said("  load: {ttft: 0.5}\n")) == 1
    assert len(said("  resources: {head: {cpu: 0.5}}\n")) == 1
    written_again = to_document(service)
    assert written_again["spec"]["load"] == {"ttft": "0.5s", "tpot": "0.00001s"}
    assert admission("LLMService").problems(written_again) == []
    assert load(to_yaml(service), source="q.yaml") == service
    assert parse_duration("0.00001s") == 0.00001


@pytest.mark.parametrize(
    ("engine", "problems"),
    [
        ("engine: {args: {enable_lora: true, max_loras: 2, hf_overrides: {a: [1]}}}", 0),
        ("mode: raycluster\n  engine: {args: {disable_log_stats: true, distributed_executor_backend: mp}}", 0),
        ("engine: {args: {disable_log_stats: true}}", 1),
        ("mode: raycluster\n  engine: {args: {port: 8001}}", 1),
        ("engine: {args: {dtype: auto}}", 1),
    ],
)
def test_engine_arguments_are_permitted_by_mode(engine: str, problems: int) -> None:
    assert len(said(f"  {engine}\n")) == problems


def test_kubectl_scale_is_told_who_scales() -> None:
    assert said("  replicas: {min: 1, max: 4}\n") == []
    [problem] = said("  replicas: {min: 1, max: 4, count: 3}\n")
    assert problem.startswith(
        ".spec.replicas.count: cannot be combined with min and max, between which Ray Serve scales"
    )
    [problem] = said("  replicas: {count: 0}\n")
    assert "spec.suspend" in problem


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition["spec"]["names"]["kind"])
def test_schemas_are_structural_and_bounded(definition: dict[str, Any]) -> None:
    """As the API server demands (k8s.io/apiextensions-apiserver, schema/validation.go), and with a limit on everything
    from which it estimates what rules cost."""
    [version] = definition["spec"]["versions"]
    count = 0
    for at, schema in nodes(version["schema"]["openAPIV3Schema"], ""):
        count += 1
        free = schema.get("x-kubernetes-preserve-unknown-fields") is True
        either = schema.get("x-kubernetes-int-or-string") is True
        assert ("type" in schema) != either or (free and "type" not in schema), at
        assert not schema.keys() & {"$ref", "anyOf", "oneOf", "allOf", "not", "const", "$defs"}, at
        assert "default" not in schema or at == ".status", at
        assert not ("properties" in schema and "additionalProperties" in schema), at
        assert schema.get("additionalProperties") not in (True, False), at
        if schema.get("type") == "array":
            assert schema.keys() >= {"items", "maxItems"}, at
        if schema.get("type") == "string" and at.startswith(".spec"):
            assert schema.keys() & {"maxLength", "enum"}, at
        if "additionalProperties" in schema or (free and "type" in schema):
            assert "maxProperties" in schema, at
    assert count > 200
    assert len(json.dumps(definition)) < 262_144, "kubectl apply keeps the object in an annotation of this size"


def nodes(schema: dict[str, Any], at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield at, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{at}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{at}[]")


def test_what_kubectl_shows_and_scales_is_in_the_schema() -> None:
    for definition in definitions():
        [version] = definition["spec"]["versions"]
        known = {at for at, _ in nodes(version["schema"]["openAPIV3Schema"], "")}
        paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
        paths += version["subresources"].get("scale", {}).values()
        for path in paths:
            plain_path = re.sub(r'\[\?\(@\.type=="\w+"\)\]|\[0\]', "[]", path)
            assert plain_path in {*known, ".metadata.creationTimestamp"}, path

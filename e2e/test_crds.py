"""The CustomResourceDefinitions on a real API server: it takes them, and judges specs as the list of checks says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.harness import Bench, Object, served_api
from e2e.oneprocess import OneProcess, one_process

pytestmark = pytest.mark.xdist_group("controller")

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "charts" / "rayllm-operator" / "templates" / "crds.yaml"
CHECKS = ROOT / "tests" / "specfile" / "crd" / "checks.yaml"
SPECS = sorted(
    [
        *ROOT.glob("tests/render/specs/*.yaml"),
        *ROOT.glob("tests/render/batchspecs/*.yaml"),
        *ROOT.glob("manifests/**/llmservice.yaml"),
        *ROOT.glob("manifests/**/batchjob.yaml"),
    ]
)
WITH_FILES = {"applications", "calibrated", "several-models"}
"""Specs that name files next to them, which the controller does not have."""


class Judge:
    """What the API server says of objects, with strict validation and without keeping them."""

    def __init__(self, address: str, namespace: str) -> None:
        self._address, self._namespace = address, namespace

    def said(self, document: Object) -> str:
        """Why it rejects the object; empty if it takes it."""
        path = f"/apis/rayllm.io/v1alpha1/namespaces/{self._namespace}/{document['kind'].lower()}s"
        request = urllib.request.Request(
            f"{self._address}{path}?dryRun=All&fieldValidation=Strict",
            data=json.dumps({**document, "metadata": {"name": document["metadata"]["name"]}}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60):
                return ""
        except urllib.error.HTTPError as error:
            if error.code not in (400, 422):
                raise
            return str(json.loads(error.read())["message"])


@pytest.fixture(scope="module")
def judge(shared: Bench) -> Iterator[Judge]:
    """With the definitions of the chart, which are taken away at the end."""
    definitions = "".join(line for line in TEMPLATE.read_text().splitlines(True) if not line.startswith("{{"))
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(definitions)]
    shared.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input_text=definitions)
    try:
        crds = [f"crd/{name}" for name in names]
        shared.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
        with served_api(shared.target) as address:
            found = Judge(address, shared.namespace)
            shared.wait("both kinds are served", lambda: served(shared), timeout=60)
            yield found
    finally:
        shared.kubectl("delete", "crd", *names, "--ignore-not-found")


def served(bench: Bench) -> bool:
    listed = bench.kubectl("api-resources", "--api-group=rayllm.io", "--no-headers", "-o", "name", check=False)
    return len(listed.split()) == 2


@pytest.fixture(scope="module")
def commands(shared: Bench) -> Iterator[OneProcess]:
    with one_process(shared.target.environment) as made:
        yield made


@pytest.mark.usefixtures("judge")
def test_the_definitions_are_structural_and_within_their_budget(shared: Bench) -> None:
    for name in ("llmservices.rayllm.io", "batchjobs.rayllm.io"):
        conditions = shared.get("crd", name)["status"]["conditions"]
        states = {condition["type"]: condition["status"] for condition in conditions}
        assert states["Established"] == states["NamesAccepted"] == "True"
        assert states.get("NonStructuralSchema", "False") == "False", conditions


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_spec_of_the_corpus_is_accepted(judge: Judge, commands: OneProcess, spec: Path) -> None:
    said = judge.said(yaml.safe_load(spec.read_text(encoding="utf-8")))
    rendered = commands.run("render", "--offline", "-f", str(spec), code=None)
    assert rendered.code == 0, rendered
    if spec.stem in WITH_FILES:
        assert "which the controller does not have" in said
    else:
        assert said == ""


def test_specs_that_violate_a_check_are_stopped_where_the_list_says(
    judge: Judge, commands: OneProcess, tmp_path: Path
) -> None:
    wrong = []
    for entry in yaml.safe_load(CHECKS.read_text(encoding="utf-8")):
        if "spec" not in entry:
            continue
        document = {
            "apiVersion": "rayllm.io/v1alpha1",
            "kind": entry.get("kind", "LLMService"),
            "metadata": {"name": entry.get("name", "q")},
            "spec": entry["spec"],
        }
        file = tmp_path / "spec.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        rendered = commands.run("render", "--offline", "-f", str(file), code=None)
        said = judge.said(document)
        if rendered.code == 0 or bool(said) != (entry["where"] == "admission"):
            wrong.append((entry["at"], entry["rule"], rendered.code, said))
    assert wrong == []


def test_messages_do_not_repeat_what_may_be_a_secret(judge: Judge) -> None:
    token = "hf_" + "a1B2" * 8
    for spec in (
        {"model": {"id": "m", "tokenSecret": {"name": "hf", "key": f"{token}/"}}},
        {"model": {"id": "m"}, "gateway": {"keys": {"secret": f"{token}/"}}},
        {"model": {"id": "m"}, "ray": {"faultTolerance": {"redisAddress": f"redis://:{token}@redis:6379"}}},
    ):
        document = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "q"}, "spec": spec}
        said = judge.said(document)
        assert said
        assert token not in said


@pytest.mark.usefixtures("judge")
def test_kubectl_scale(shared: Bench) -> None:
    """A count is changed; bounds are Ray Serve's."""
    for name, replicas in (("fixed", {"count": 1}), ("bounded", {"min": 1, "max": 4})):
        spec = {"model": {"id": "m"}, "replicas": replicas}
        document = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": name}, "spec": spec}
        shared.kubectl("apply", "-n", shared.namespace, "-f", "-", input_text=json.dumps(document))
    shared.kubectl("scale", "llms/fixed", "-n", shared.namespace, "--replicas=3")
    assert shared.get("llmservice", "fixed")["spec"]["replicas"] == {"count": 3}
    with pytest.raises(AssertionError, match="between which Ray Serve scales"):
        shared.kubectl("scale", "llms/bounded", "-n", shared.namespace, "--replicas=3")
    assert shared.get("llmservice", "bounded")["spec"]["replicas"] == {"min": 1, "max": 4}
    shown = shared.kubectl("get", "llms", "-n", shared.namespace).splitlines()[0].split()
    assert shown == ["NAME", "MODEL", "READY", "REASON", "REPLICAS", "GPUS", "URL", "AGE"]
    shared.kubectl("delete", "llms", "--all", "-n", shared.namespace)


def test_null_is_dropped_and_an_unknown_field_is_rejected(shared: Bench, judge: Judge) -> None:
    document: Object = {
        "apiVersion": "rayllm.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "q"},
        "spec": {
            "model": {"id": "m", "path": None},
            "engine": None,
            "exposure": {"gateway": {"name": "g", "requestTimeout": None}},
        },
    }
    shared.kubectl("create", "-n", shared.namespace, "-f", "-", input_text=json.dumps(document))
    kept = shared.get("llmservice", "q")["spec"]
    assert kept == {"model": {"id": "m"}, "exposure": {"gateway": {"name": "g", "requestTimeout": None}}}
    document["spec"]["modle"] = {}
    assert 'unknown field "spec.modle"' in judge.said(document)
    shared.kubectl("delete", "llms", "q", "-n", shared.namespace)

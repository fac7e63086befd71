"""The Helm charts, without Helm: values against their schemas, what templates and READMEs name, and rights.

What Helm makes of them is tested in e2e/test_charts.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from rayllm_ctl import __version__
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.specfile import load_any_file
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.setup.controller_rights import LEASE_RIGHTS, controller_rights
from rayllm_ctl.workflows.setup.rbac import COMMANDS, rules
from scripts.spec_schema import values_schema

CHARTS = sorted(path.parent for path in (Path(__file__).parents[2] / "charts").glob("*/Chart.yaml"))
OPERATOR, MODELS = (next(chart for chart in CHARTS if chart.name == name) for name in ("rayllm-operator", "rayllm"))

of_each = pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.name)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def schema_of(chart: Path) -> Any:
    return json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))


def is_valid(chart: Path, values: Any) -> bool:
    return bool(jsonschema_rs.validator_for(schema_of(chart)).is_valid(values))


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """`values` with another value at `path`."""
    first, _, rest = path.partition(".")
    return {**values, first: changed(values.get(first, {}), rest, value) if rest else value}


def paths(values: Any) -> Iterator[str]:
    """Every value and section of values, as templates name them."""
    for key, value in values.items() if isinstance(values, dict) else ():
        yield key
        yield from (f"{key}.{below}" for below in paths(value))


def described(schema: Any) -> Iterator[str]:
    """Every value that a schema has a property for."""
    for key, value in schema.get("properties", {}).items():
        yield key
        yield from (f"{key}.{below}" for below in described(value))


@of_each
def test_the_default_values_are_valid(chart: Path) -> None:
    assert is_valid(chart, loaded(chart / "values.yaml"))


@pytest.mark.parametrize(
    ("chart", "path", "value"),
    [
        (OPERATOR, "replicas", 2),
        (OPERATOR, "image.registry", "r"),
        (OPERATOR, "watchNamespaces", "llm"),
        (OPERATOR, "watchNamespaces", ["llm", "llm"]),
        (OPERATOR, "watchNamespaces", ["*"]),
        (OPERATOR, "podMonitor.interval", "30"),
        (OPERATOR, "workers", 0),
        (OPERATOR, "podLabels", {"a": 1}),
        (MODELS, "service", {}),
        (MODELS, "models", [{"name": "a"}]),
        (MODELS, "models", {"Upper": {"model": {"id": "m"}}}),
        (MODELS, "models", {"a": {}}),
        (MODELS, "models", {"a": {"metadata": {}, "spec": {"model": {"id": "m"}}}}),
        (MODELS, "models", {"a": {"accelerator": {"gpu": "L4"}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "models": [{"id": "m"}]}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replica": {"max": 8}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"max": "eight"}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"max": 0}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"max": 2**31}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"max": 1.5}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "parallelism": {"tensor": 0}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "serve": {"grpc": {"port": 65536, "servicerFunctions": []}}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "engine": {"gpuMemoryUtilization": 0}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "scheduling": {"rayResources": {"x": 0}}}}),
        (MODELS, "models", {"a": "m"}),
        (MODELS, "batchJobs", {"a": {"model": {"id": "m"}, "input": {"path": "s3://b/i"}}}),
        (OPERATOR, "image.repository", "reg/x:1.0"),
        (OPERATOR, "image.repository", "x:1.0"),
        (OPERATOR, "image.repository", f"reg/x@sha256:{'0' * 64}"),
        (OPERATOR, "image.tag", "reg/x:1.0"),
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_rejected(chart: Path, path: str, value: Any) -> None:
    assert not is_valid(chart, changed(loaded(chart / "values.yaml"), path, value))


@pytest.mark.parametrize(
    ("chart", "path", "value"),
    [
        (MODELS, "models", {"a": None, "b": {"model": {"id": "m"}, "replicas": None}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"min": 0, "max": 1e6}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "replicas": {"max": 2**31 - 1}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "engine": {"gpuMemoryUtilization": 0.9}}}),
        (MODELS, "models", {"a": {"model": {"id": "m"}, "serve": {"grpc": {"port": 65535, "servicerFunctions": []}}}}),
        (MODELS, "batchJobs", {"a": None}),
        (OPERATOR, "image.repository", "registry.example:5000/team/x"),
        (OPERATOR, "image.tag", "1.0"),
        (OPERATOR, "image.tag", f"sha256:{'0' * 64}"),
    ],
    ids=str,
)
def test_values_that_change_something_are_valid(chart: Path, path: str, value: Any) -> None:
    assert is_valid(chart, changed(loaded(chart / "values.yaml"), path, value))


def test_the_schema_of_models_is_that_of_spec_files() -> None:
    assert (MODELS / "values.schema.json").read_text(encoding="utf-8") == values_schema(), "run scripts/spec_schema.py"


@of_each
def test_the_schema_has_the_values_and_no_others(chart: Path) -> None:
    """So that a value without a default, which nobody finds, cannot be set. Helm sets `global` for subcharts."""
    open_ended = {"global", "resources", "podSecurityContext", "securityContext"}
    values = {path for path in paths(loaded(chart / "values.yaml")) if path.partition(".")[0] not in open_ended}
    assert values == {path for path in described(schema_of(chart)) if path not in open_ended}


@of_each
def test_templates_read_values_that_exist_and_each_of_them(chart: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (chart / "templates").rglob("*") if path.is_file()]
    read = {name for text in texts for name in re.findall(r"\.Values\.([\w.]*\w)", text)}
    known = set(paths(loaded(chart / "values.yaml")))
    assert read - known == set()
    # The template with the CRDs is made by another script.
    unread = {
        path
        for path in known - read
        if not any(path.startswith(f"{one}.") or one.startswith(f"{path}.") for one in read)
    }
    assert unread - {"crds", "crds.install"} == set()


@of_each
def test_the_readme_names_every_value(chart: Path) -> None:
    readme = (chart / "README.md").read_text(encoding="utf-8")
    named = {name for cell in re.findall(r"^\| (`.*?) \|", readme, re.M) for name in re.findall(r"`([\w.]+)`", cell)}
    assert set(loaded(chart / "values.yaml")) - {name.partition(".")[0] for name in named} == set()


@of_each
def test_the_version_is_that_of_the_package(chart: Path) -> None:
    about = loaded(chart / "Chart.yaml")
    assert (about["name"], about["version"], about["appVersion"]) == (chart.name, __version__, __version__)


def test_the_example_of_the_readme_is_valid_and_fits(tmp_path: Path) -> None:
    readme = (MODELS / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```yaml\n(.*?)^```", readme, re.M | re.S)
    values = yaml.safe_load(example)
    assert is_valid(MODELS, values)
    for kind, section in (("LLMService", "models"), ("BatchJob", "batchJobs")):
        for name, spec in values[section].items():
            document = {"apiVersion": "rayllm.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
            (tmp_path / f"{name}.yaml").write_text(dump(document), encoding="utf-8")
    service, job = (load_any_file(tmp_path / f"{name}.yaml") for name in ("qwen3-32b", "summaries"))
    assert isinstance(service, LLMService)
    assert isinstance(job, BatchJob)
    assert make_plan(service, OFFLINE).verdict == "fits"


def test_the_controller_reads_no_secret() -> None:
    rights = controller_rights()
    assert {right.verb for right in (*rights.needed, *rights.display) if right.kind == "Secret"} == {"create"}


def test_the_controller_may_do_what_commands_need_that_it_stands_for() -> None:
    rights = controller_rights()
    for command in ("deploy", "status", "delete", "batch submit"):
        assert set(COMMANDS[command].needed) - set(rights.needed) == set(), command


def test_the_controller_changes_no_spec_and_no_role() -> None:
    granted = (*controller_rights().needed, *controller_rights().display, *LEASE_RIGHTS.needed)
    changes = {right for right in granted if right.verb not in ("get", "list", "watch")}
    own = {(right.kind, right.subresource) for right in changes if right.kind in ("LLMService", "BatchJob")}
    assert own == {(kind, part) for kind in ("LLMService", "BatchJob") for part in ("status", "finalizers")}
    roles = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")
    assert not {right for right in changes if right.kind in roles or right.everywhere}
    assert all("*" not in names for rule in rules(granted) for names in rule.values())

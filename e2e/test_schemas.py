"""The checks without a cluster agree with the API server: they accept what it accepts, and reject what it rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Bench, Object

SPECS = sorted((Path(__file__).parent.parent / "tests" / "render" / "specs").glob("*.yaml"))

SPEC: dict[str, Any] = {
    "apiVersion": "rayllm.io/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "checked"},
    "spec": {"model": {"id": "Qwen/Qwen3-8B"}, "accelerator": {"gpu": "H100-80GB"}},
}
HEAD = "/spec/rayClusterConfig/headGroupSpec"
GROUP = "/spec/rayClusterConfig/workerGroupSpecs/0"
POD = f"{GROUP}/template/spec"
BOX = f"{POD}/containers/0"

CHANGES: list[tuple[str, Any, bool]] = [
    ("/spec/rayClusterDeletionDelaySeconds", 5, True),
    ("/spec/rayClusterDeletionDelaySeconds", -5, False),
    ("/spec/rayClusterDeletionDelaySeconds", "5", False),
    ("/spec/suspend", True, False),
    ("/spec/rayClusterConfig/autoscalerOptions/version", "v3", False),
    ("/spec/rayClusterConfig/autoscalerOptions/upscalingMode", "Conservative", True),
    (f"{HEAD}/serviceType", "LoadBalancer", True),
    (f"{HEAD}/template/spec/hostNetworks", True, False),
    (f"{GROUP}/maxReplicas", 2**31, False),
    (f"{GROUP}/template/metadata/labels", {"a": "b"}, True),
    (f"{GROUP}/template/metadata/labels", {"a": 1}, False),
    (f"{GROUP}/template/metadata/generation", 1, False),
    (f"{POD}/terminationGracePeriodSeconds", 30, True),
    (f"{POD}/terminationGracePeriodSeconds", 1.5, False),
    (f"{POD}/topologySpreadConstraints", [{"topologyKey": "zone", "maxSkew": 1}], False),
    (f"{POD}/hostAliases", [{"ip": "10.0.0.1", "hostnames": ["a"]}], True),
    (f"{BOX}/resources/limits/cpu", "1.5", True),
    (f"{BOX}/resources/limits/cpu", "much", False),
    (f"{BOX}/ports/-", {"name": "again", "containerPort": 8000, "protocol": "TCP"}, False),
    (f"{BOX}/lifecycle", {"preStop": {"exec": {"command": ["sleep", "5"]}}}, True),
    (f"{BOX}/lifecycle", {"preStop": {"exec": {"commands": ["sleep"]}}}, False),
    (f"{BOX}/env", [{"name": "A", "value": ""}], True),
    (f"{BOX}/env", [{"name": "A"}, {"name": "A"}], False),
    (f"{BOX}/env", [{"value": "1"}], False),
    (f"{BOX}/livenessProbe", {"httpGet": {"path": "/", "port": "serve"}}, True),
    (f"{BOX}/livenessProbe", {"httpGet": {"path": "/"}}, False),
]
"""A place of the RayService, what is put there, and whether KubeRay 1.6 accepts it."""


def dry_run(bench: Bench, *objects: Object) -> str:
    """What the API server says of objects that it would take, and of those that it rejects, with strict validation."""
    args = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", bench.namespace, "-f", "-")
    listing = {"apiVersion": "v1", "kind": "List", "items": objects}
    return bench.kubectl(*args, check=False, input_text=json.dumps(listing))


def test_the_api_server_accepts_every_spec_of_the_corpus(bench: Bench) -> None:
    served = bench.kubectl("api-resources", "--no-headers", "-o", "name")
    for spec in SPECS:
        text = bench.run("render", "--offline", "-f", str(spec), "-n", bench.namespace).out
        objects = [item for item in yaml.safe_load_all(text) if f"{item['kind'].lower()}s" in served]
        assert objects, spec.name
        said = dry_run(bench, *objects)
        assert said.count("serverside-applied") == len(objects), f"{spec.name}: {said}"


@pytest.fixture(scope="module")
def manifest(shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What SPEC is rendered to, as YAML."""
    file = tmp_path_factory.mktemp("spec") / "spec.json"
    file.write_text(json.dumps(SPEC), encoding="utf-8")
    return shared.run("render", "--offline", "-f", str(file)).out


@pytest.mark.parametrize(("path", "value", "accepted"), CHANGES)
def test_a_changed_field_is_judged_alike(
    shared: Bench, manifest: str, tmp_path: Path, path: str, value: Any, accepted: bool
) -> None:
    patch = {"target": {"kind": "RayService"}, "patch": [{"op": "add", "path": path, "value": value}]}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({**SPEC, "spec": {**SPEC["spec"], "patches": [patch]}}), encoding="utf-8")
    found = shared.run("render", "--offline", "-f", str(file), code=None)
    assert (found.code == 0) == accepted, found

    changed = yaml.safe_load(manifest)
    *way, last = path.split("/")[1:]
    parent = changed
    for part in way:
        parent = parent[int(part)] if isinstance(parent, list) else parent.setdefault(part, {})
    if isinstance(parent, list):
        parent.append(value)
    else:
        parent[last] = value
    assert ("serverside-applied" in dry_run(shared, changed)) == accepted

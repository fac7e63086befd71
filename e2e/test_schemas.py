"""The checks without a cluster agree with the API server: they accept what it accepts, and reject what it rejects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Bench, Object, Result
from e2e.oneprocess import OneProcess, one_process

pytestmark = pytest.mark.xdist_group("schemas")

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


@pytest.fixture(scope="module")
def commands(shared: Bench) -> Iterator[OneProcess]:
    with one_process(shared.target.environment) as made:
        yield made


def dry_run(bench: Bench, objects: Sequence[Object], *, check: bool) -> list[str]:
    """Those of the objects that the API server would take with strict validation, as `kind.group/name`.

    check: fail with what it says of the others.
    """
    args = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", bench.namespace, "-f", "-")
    # Documents: of a List kubectl would take all objects or none.
    lines = bench.kubectl(*args, check=check, input_text=yaml.safe_dump_all(objects)).splitlines()
    return [line.partition(" ")[0] for line in lines if "serverside-applied" in line]


def test_the_api_server_accepts_every_spec_of_the_corpus(shared: Bench, commands: OneProcess) -> None:
    served = shared.kubectl("api-resources", "--no-headers", "-o", "name")
    corpus: list[Object] = []
    for spec in SPECS:
        text = commands.run("render", "--offline", "-f", str(spec), "-n", shared.namespace).out
        objects = [item for item in yaml.safe_load_all(text) if f"{item['kind'].lower()}s" in served]
        assert objects, spec.name
        corpus += objects
    assert len(dry_run(shared, corpus, check=True)) == len(corpus)


def rendered(commands: OneProcess, file: Path, *patches: Object) -> Result:
    """What `render` makes of SPEC with patches."""
    file.write_text(json.dumps({**SPEC, "spec": {**SPEC["spec"], "patches": patches}}), encoding="utf-8")
    return commands.run("render", "--offline", "-f", str(file), code=None)


def changed(manifest: Object, path: str, value: Any) -> Object:
    """A RayService with a value at a JSON pointer."""
    found = deepcopy(manifest)
    *way, last = path.split("/")[1:]
    parent: Any = found
    for part in way:
        parent = parent[int(part)] if isinstance(parent, list) else parent.setdefault(part, {})
    if isinstance(parent, list):
        parent.append(value)
    else:
        parent[last] = value
    return found


@pytest.fixture(scope="module")
def verdicts(
    shared: Bench, commands: OneProcess, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Result, bool]]:
    """What `render` says of each of the CHANGES, and whether the API server would take the changed object."""
    file = tmp_path_factory.mktemp("spec") / "spec.json"
    manifest = yaml.safe_load(rendered(commands, file).out)
    ours, objects = [], []
    for number, (path, value, _) in enumerate(CHANGES):
        patch = {"target": {"kind": "RayService"}, "patch": [{"op": "add", "path": path, "value": value}]}
        ours.append(rendered(commands, file, patch))
        item = changed(manifest, path, value)
        item["metadata"]["name"] = f"change-{number}"
        objects.append(item)
    taken = dry_run(shared, objects, check=False)
    return [(found, f"rayservice.ray.io/change-{number}" in taken) for number, found in enumerate(ours)]


@pytest.mark.parametrize(
    ("number", "accepted"),
    [pytest.param(number, accepted, id=path) for number, (path, _, accepted) in enumerate(CHANGES)],
)
def test_a_changed_field_is_judged_alike(verdicts: list[tuple[Result, bool]], number: int, accepted: bool) -> None:
    found, taken = verdicts[number]
    assert (found.code == 0) == accepted, found
    assert taken == accepted

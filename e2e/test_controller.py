"""The controller in the cluster: its chart, and a service on simulated nodes from its first apply to its deletion."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import hub
from e2e.controllers import KINDS, Declared, Release, released, tiny_spec
from e2e.harness import Bench, Object, Target, kubectl_program
from e2e.images.oci import Image
from e2e.simulated import schedule_on_simulated_nodes, simulated_nodes

pytestmark = [pytest.mark.xdist_group("controller"), pytest.mark.incremental]

NAME = "own"
ODD = "a <b> & é"
"""Characters that JSON can be written with in more than one way."""


@pytest.fixture(scope="module")
def operator(simulated_nodes: Target, shared: Bench, controller_image: Image) -> Iterator[Release]:
    """The chart of this checkout; pods of services go to simulated nodes, the controller's to a real one."""
    assert shared.target is simulated_nodes
    schedule_on_simulated_nodes(shared)
    with released(shared) as release:
        release.install(controller_image)
        yield release


@pytest.fixture(scope="module")
def spec(shared: Bench) -> Object:
    """One replica of the tiny model. A fixed number, so that `kubectl scale` may change it."""
    spec = tiny_spec(shared, NAME) | {"replicas": {"count": 1}}
    return {**spec, "engine": {**spec["engine"], "env": {**spec["engine"].get("env", {}), "ODD": ODD}}}


@pytest.fixture
def service(operator: Release, shared: Bench) -> Declared:
    assert operator.bench.target is shared.target
    return Declared(shared, NAME)


def rejected(bench: Bench, *args: str) -> str:
    """What kubectl says of what the API server rejects."""
    argv = [kubectl_program(), *args, "-n", bench.namespace]
    done = subprocess.run(argv, env=bench.target.environment, capture_output=True, text=True, check=False)
    assert done.returncode, done.stdout
    return done.stderr


def test_a_service_becomes_ready_and_answers(service: Declared, spec: Object) -> None:
    bench = service.bench
    service.apply(spec)
    where = ("-n", bench.namespace)
    bench.kubectl("wait", "--for=condition=Ready", f"llms/{NAME}", *where, "--timeout=180s", timeout=200)
    service.settled()
    item = service.item
    assert "finalizers" not in item["metadata"]
    status = item["status"]
    assert status["observedGeneration"] == item["metadata"]["generation"]
    assert {one["observedGeneration"] for one in status["conditions"]} == {item["metadata"]["generation"]}
    for type_ in ("Planned", "Applied", "ClusterReady", "ModelsReady", "Ready"):
        assert service.condition(type_)[0] == "True", status
    assert service.condition("Stalled")[0] == "False"
    assert (status["replicas"], status["readyReplicas"], status["revision"]) == (1, 1, 1)
    header, row = bench.kubectl("get", "llms", NAME, *where).splitlines()
    assert header.split() == ["NAME", "MODEL", "READY", "REASON", "REPLICAS", "GPUS", "URL", "AGE"]
    assert row.split()[:5] == [NAME, "tiny", "True", "Ready", "1/1"]
    assert status["url"] in row
    assert bench.run("chat", NAME, *where, "Hello", "--max-tokens", "8").out.strip()
    assert bench.run("status", NAME, *where, "-o", "json").json()["state"] == "Ready"


def test_what_it_owns_names_its_owner_and_manager(service: Declared) -> None:
    uid = service.item["metadata"]["uid"]
    owned = service.children()[f"RayService/{NAME}"]
    (owner,) = owned["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)
    managers = {one["manager"] for one in owned["metadata"]["managedFields"] if one["operation"] == "Apply"}
    assert "rayllm-controller" in managers
    assert "rayllm-ctl" not in managers


def test_when_nothing_changes_nothing_is_written(service: Declared) -> None:
    before = service.item["metadata"]["resourceVersion"]
    children = versions(service)
    # The controller has looked at it again when it has seen this annotation, which changes nothing.
    service.bench.kubectl("annotate", "llms", NAME, "seen=once", "-n", service.bench.namespace)
    annotated = service.item["metadata"]["resourceVersion"]
    assert annotated != before
    service.bench.run("status", NAME, "-n", service.bench.namespace)
    assert service.item["metadata"]["resourceVersion"] == annotated
    assert versions(service) == children


def versions(service: Declared) -> dict[str, tuple[int, str]]:
    """Generation of each child, and what the controller has written of it."""
    return {
        name: (
            item["metadata"].get("generation", 0),
            json.dumps([one for one in item["metadata"]["managedFields"] if one["manager"] == "rayllm-controller"]),
        )
        for name, item in service.children().items()
    }


def test_a_changed_argument_is_rolled_out(service: Declared, spec: Object) -> None:
    changed = {**spec, "engine": {**spec["engine"], "args": {"seed": 7}}}
    generation = service.apply(changed)
    service.wait("Planned")
    if service.condition("Upgrading") == ("False", "NeedsConsent"):  # without room for another replica
        service.apply(changed, {"rayllm.io/accept": str(generation)})
    service.settled()
    assert "seed: 7" in served(service)
    assert service.status["revision"] == 2


def served(service: Declared) -> str:
    """The Serve configuration that is applied."""
    return str(service.bench.get("rayservice", service.name)["spec"]["serveConfigV2"]).replace('"', "")


def test_a_spec_that_does_not_fit_leaves_what_runs(service: Declared) -> None:
    before = versions(service)
    large = {"id": "meta-llama/Llama-3.1-70B-Instruct"}
    service.apply(
        {"model": large, "accelerator": {"gpu": "H100-80GB"}, "parallelism": {"tensor": 1}, "replicas": {"count": 1}}
    )
    service.wait("Stalled", reason="DoesNotFit")
    assert service.condition("Planned") == ("False", "DoesNotFit")
    assert service.condition("Ready")[0] == "True", "the service that runs goes on"
    assert versions(service) == before


def test_the_earlier_spec_is_applied_as_it_was(service: Declared, spec: Object) -> None:
    generation = service.apply(spec)
    service.wait("Planned")
    if service.condition("Upgrading") == ("False", "NeedsConsent"):
        service.apply(spec, {"rayllm.io/accept": str(generation)})
    service.settled()
    assert "seed: 7" not in served(service)
    assert service.condition("Stalled")[0] == "False"
    assert service.condition("Ready")[0] == "True"
    # It is not asked here: on simulated nodes the idle worker of the surge stays among the addresses, without a proxy.


def test_kubectl_scales_a_fixed_number_of_replicas(service: Declared) -> None:
    bench = service.bench
    bench.kubectl("scale", "llms", NAME, "--replicas=2", "-n", bench.namespace)
    assert service.item["spec"]["replicas"]["count"] == 2
    service.settled()
    bench.wait("two replicas run", lambda: service.status["readyReplicas"] == 2, timeout=120)
    scale = json.loads(bench.kubectl("get", "llms", NAME, "--subresource=scale", "-n", bench.namespace, "-o", "json"))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    workers = bench.items("pods", scale["status"]["selector"])
    assert len(workers) == 2


def test_kubectl_does_not_scale_what_serve_scales(operator: Release, shared: Bench, spec: Object) -> None:
    assert operator.bench.target is shared.target
    planned = Declared(shared, "bounds")
    planned.apply({**spec, "replicas": {"min": 1, "max": 2}, "planOnly": True})
    said = rejected(shared, "scale", "llms", "bounds", "--replicas=2")
    assert "count" in said, said
    planned.wait("Applied", "False", "PlanOnly")
    assert planned.children() == {}
    planned.delete()


def test_a_strategic_patch_leaves_the_data_of_a_revision(service: Declared) -> None:
    """As the garbage collector sends, where an LLMService is deleted and its children are left."""
    bench = service.bench
    revisions = bench.items("controllerrevisions.apps", f"rayllm.io/service={NAME}")
    assert [ODD in json.dumps(one["data"], ensure_ascii=False) for one in revisions] == [True] * len(revisions) != []
    patch = json.dumps({"metadata": {"annotations": {"seen": "true"}}})
    for revision in revisions:
        name = revision["metadata"]["name"]
        bench.kubectl("patch", "controllerrevision", name, "--type=strategic", "-p", patch, "-n", bench.namespace)


def test_gpus_are_asked_for_when_the_model_is_there(operator: Release, shared: Bench, tmp_path: Path) -> None:
    """The download waits for a node with a label."""
    assert operator.bench.target is shared.target
    mark = f"models-of-{shared.namespace}"
    mirrored = Declared(shared, "mirrored")
    with hub.shared_volume(shared, "mirrored", tmp_path / "models") as volume:
        create = {"size": "90Gi", "storageClass": volume, "accessModes": ["ReadWriteMany"]}
        mirrored.apply({
            "model": {"id": "Qwen/Qwen3-32B"}, "accelerator": {"gpu": "H100-80GB"}, "parallelism": {"tensor": 4},
            "replicas": {"count": 1},
            "storage": {"model": {"mirror": {"from": "hf", "to": {"claim": {"name": "mirrored", "create": create}}}}},
            "patches": [{
                "target": {"kind": "Job"}, "patch": {"spec": {"template": {"spec": {"nodeSelector": {mark: "here"}}}}},
            }],
        })  # fmt: skip
        mirrored.wait("Applied", "False", "Downloading")
        mirrored.wait("Ready", "False", "NodeSelectorMismatch")
        assert mark in mirrored.message("Ready")
        assert not [
            kind for kind in ("rayservice", "raycluster") if shared.items(kind, "app.kubernetes.io/instance=mirrored")
        ]
        said = shared.run("status", "mirrored", "-n", shared.namespace, "-o", "json", code=None).json()
        assert [one["state"] for one in said["downloads"]] == ["Pending"]

        node = simulated_nodes(shared)[0]
        shared.kubectl("label", "node", node, f"{mark}=here")
        try:
            mirrored.settled()
        finally:
            shared.kubectl("label", "node", node, f"{mark}-")
        assert mirrored.status["revision"] == 1
        mirrored.delete()
        shared.wait("all that it owned is gone", lambda: not mirrored.left(), timeout=120)


def test_what_it_owns_goes_with_it(service: Declared) -> None:
    service.delete()
    service.bench.wait("all that it owned is gone", lambda: not service.left(), timeout=120)
    listed = service.bench.kubectl("get", KINDS, "-n", service.bench.namespace, "-o", "name").split()
    assert listed == []

"""Changes do what `diff` said: which pods and replicas are replaced, and whether a second cluster comes."""

from __future__ import annotations

import json

import pytest

from e2e.harness import LLAMA, Bench, Object, Target
from e2e.test_shapes import ENGINE

NAME = "changing"
OTHER_IMAGE = "registry.example/ray-llm:next"


def apply_as_gitops_does(bench: Bench, *flags: str) -> None:
    """Apply what `render` prints, without rayllm-ctl, and wait until the operator has seen it."""
    manifest = bench.run("render", *flags).out
    args = ("apply", "--server-side", "--field-manager=rayllm-ctl", "-n", bench.namespace, "-f", "-")
    bench.kubectl(*args, input_text=manifest)

    def seen() -> bool:
        item = bench.get("rayservice", NAME)
        return bool(item["status"].get("observedGeneration") == item["metadata"]["generation"])

    bench.wait("the operator sees the change", seen, timeout=60)


def effects(bench: Bench, *flags: str) -> set[str]:
    document = bench.run("diff", *flags, "-n", bench.namespace, "-o", "json", code=1).json()
    return set(document["effects"])


def pods(bench: Bench) -> dict[str, str]:
    """Every pod and its uid."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bench.items("pods")}


def clusters(bench: Bench) -> list[Object]:
    return bench.items("rayclusters")


def bounds(bench: Bench) -> int:
    (only,) = clusters(bench)
    most: int = only["spec"]["workerGroupSpecs"][0]["maxReplicas"]
    return most


def test_bounds_and_a_second_cluster(simulated: Bench) -> None:
    flags = (*LLAMA[1:], "--tp", "4", "--name", NAME)
    simulated.run("deploy", *flags, "--max-replicas", "1", "-n", simulated.namespace)
    assert simulated.run("diff", *flags, "--max-replicas", "1", "-n", simulated.namespace).out == ""
    before = pods(simulated)

    more = (*flags, "--max-replicas", "2")
    assert effects(simulated, *more) == {"bounds", "in-place"}
    apply_as_gitops_does(simulated, *more)
    assert bounds(simulated) == 1
    simulated.run("diff", *more, "-n", simulated.namespace, code=0)
    simulated.run("deploy", *more, "-n", simulated.namespace)
    assert bounds(simulated) == 2
    assert pods(simulated) == before

    other = (*more, "--image", OTHER_IMAGE)
    document = simulated.run("diff", *other, "-n", simulated.namespace, "-o", "json", code=1).json()
    assert document["effects"] == ["new-cluster"]
    (starts,) = document["objects"][0]["consequences"]
    assert (starts["extra"]["nvidia.com/gpu"], starts["capacity"]) == ("4", True)
    apply_as_gitops_does(simulated, *other)
    simulated.wait("a second cluster", lambda: len(clusters(simulated)) == 2, timeout=60)
    assert pods(simulated).items() >= before.items()
    old = min(clusters(simulated), key=lambda item: item["metadata"]["creationTimestamp"])["metadata"]["name"]

    def switched() -> bool:
        active = simulated.get("rayservice", NAME)["status"]["activeServiceStatus"]["rayClusterName"]
        return bool(active != old)

    simulated.wait("the second cluster serves", switched, timeout=90)
    images = {box["image"] for pod in simulated.items("pods") if pod["metadata"]["name"] not in before
              for box in pod["spec"]["containers"] if box["name"].startswith("ray-")}  # fmt: skip
    assert images == {OTHER_IMAGE}


def test_a_change_that_the_api_server_would_reject_is_no_difference(bench: Bench) -> None:
    flags = (*LLAMA[1:], "--tp", "4", "--name", NAME, "-n", bench.namespace)
    assert "RayService" in bench.run("diff", *flags, code=1).out
    assert not bench.items("rayservices")
    result = bench.run("diff", *flags[:-1], "no-such-namespace", code=3)
    assert "namespace no-such-namespace does not exist" in result.err


@pytest.fixture
def real(own: Target, bench: Bench) -> tuple[Bench, tuple[str, ...]]:
    """A service whose replicas run in Ray, with a stand-in for the engine, and the flags that made it."""
    flags = (
        *LLAMA[1:], "--tp", "4", "--name", NAME, "--image", own.image, "--model-path", "/models/tiny",
        "--env", f"RAYLLM_VLLM_ENGINE_CLS={ENGINE}", "--cpu", "2", "--memory", "3Gi",
    )  # fmt: skip
    bench.run("deploy", *flags, "-n", bench.namespace)
    return bench, flags


def replicas(bench: Bench) -> dict[str, str]:
    """Each Serve deployment and the id of its one running replica."""
    (cluster,) = clusters(bench)
    head = f"{cluster['metadata']['name']}-head-svc:dashboard"
    path = f"/api/v1/namespaces/{bench.namespace}/services/{head}/proxy/api/serve/applications/"
    answer = json.loads(bench.kubectl("get", "--raw", path))
    deployments = answer["applications"][NAME]["deployments"]
    found = {}
    for name, deployment in deployments.items():
        running = [one["replica_id"] for one in deployment["replicas"] if one["state"] == "RUNNING"]
        if deployment["status"] == "HEALTHY" and len(running) == 1:
            found[name] = running[0]
    return found


def test_replicas_restart_for_an_engine_argument_and_not_for_autoscaling(real: tuple[Bench, tuple[str, ...]]) -> None:
    bench, flags = real
    begin, first = pods(bench), replicas(bench)
    assert len(first) == 2, first

    scaled = (*flags, "--upscale-delay", "3s")
    assert effects(bench, *scaled) == {"in-place"}
    apply_as_gitops_does(bench, *scaled)
    bench.wait("Serve is healthy", lambda: len(replicas(bench)) == 2, timeout=60)

    argument = (*scaled, "--engine-arg", "enable_prefix_caching=false")
    assert effects(bench, *argument) == {"restart"}
    assert replicas(bench) == first
    apply_as_gitops_does(bench, *argument)

    def restarted() -> bool:
        now = replicas(bench)
        return set(now) == set(first) and not set(now.values()) & set(first.values())

    bench.wait("every replica is another one", restarted, timeout=180)
    assert pods(bench) == begin

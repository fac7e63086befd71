"""Changes do what `diff` said: which pods and replicas are replaced, and whether a second cluster comes."""

from __future__ import annotations

import pytest

from e2e.harness import LLAMA, Bench, Object

pytestmark = pytest.mark.xdist_group("simulated")

NAME = "changing"
OTHER_IMAGE = "registry.example/ray-llm:next"


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
    assert simulated.effects(*more) == {"bounds", "in-place"}
    simulated.apply_rendered(NAME, *more)
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
    simulated.apply_rendered(NAME, *other)
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
    result = bench.run("diff", *flags[:-1], "no-such-namespace", code=7)
    assert "namespace no-such-namespace does not exist" in result.err

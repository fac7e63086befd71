"""`scale`, `history`, `rollback` and `restart` against a real API server and KubeRay. On simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import LLAMA, Bench
from e2e.simulated import hold

pytestmark = pytest.mark.xdist_group("simulated")


def flags(bench: Bench, *more: str) -> list[str]:
    return [*LLAMA, "--name", "kept", "--tp", "4", "-n", bench.namespace, *more]


def most_workers(bench: Bench) -> set[int]:
    """maxReplicas of the worker group, in the RayService and in all its RayClusters."""
    configs: list[dict[str, Any]] = [item["spec"] for item in bench.items("rayclusters")]
    configs.append(bench.get("rayservice", "kept")["spec"]["rayClusterConfig"])
    return {group["maxReplicas"] for config in configs for group in config["workerGroupSpecs"]}


def test_what_was_applied_can_be_listed_scaled_and_applied_again(simulated: Bench) -> None:
    where = ("kept", "-n", simulated.namespace)
    simulated.run(*flags(simulated))
    simulated.run(*flags(simulated, "--max-replicas", "2"))
    revisions = simulated.run("history", *where, "-o", "json").json()["items"]
    assert [one["revision"] for one in revisions] == [1, 2]
    assert all(one["outcome"].startswith("Ready after") for one in revisions), revisions

    simulated.run("scale", *where, "--max-replicas", "3")
    assert most_workers(simulated) == {3}
    again = simulated.run(*flags(simulated, "--max-replicas", "3", "--no-wait"))
    assert "rayservice/kept unchanged" in again.err, str(again)

    rollback = simulated.run("rollback", *where)
    assert "revision 2 of kept" in rollback.err, str(rollback)
    assert most_workers(simulated) == {2}
    assert len(simulated.items("rayclusters")) == 1, "changed bounds start no second RayCluster"
    assert simulated.run("history", *where, "-o", "json").json()["items"][-1]["change"] == "rollback to 2"

    simulated.run("delete", *where)
    assert simulated.items("controllerrevisions.apps") == []


@pytest.mark.slow
def test_a_restart_is_no_change_for_the_next_deploy(simulated: Bench) -> None:
    simulated.run(*flags(simulated))
    (before,) = [item["metadata"]["name"] for item in simulated.items("rayclusters")]
    simulated.run("restart", "kept", "-n", simulated.namespace)
    active = simulated.get("rayservice", "kept")["status"]["activeServiceStatus"]["rayClusterName"]
    assert active != before
    again = simulated.run(*flags(simulated, "--no-wait"))
    assert "rayservice/kept unchanged" in again.err, str(again)
    assert simulated.run("diff", *flags(simulated)[1:]).code == 0


@pytest.mark.slow
def test_a_suspended_service_has_no_pods_and_comes_back_as_it_was_changed(simulated: Bench) -> None:
    where = ("kept", "-n", simulated.namespace)
    simulated.run(*flags(simulated))
    (before,) = [item["metadata"]["name"] for item in simulated.items("rayclusters")]
    suspended = simulated.run("suspend", *where)
    assert "no pod of kept is left" in suspended.err, str(suspended)
    assert simulated.items("pods", f"ray.io/cluster={before}") == []
    assert simulated.run("status", *where, "-o", "json").json()["state"] == "Suspended"
    waiting = simulated.run("wait", *where, "--for", "ready", code=1)
    assert "rayllm-ctl resume kept" in waiting.err, str(waiting)

    simulated.run(*flags(simulated, "--max-replicas", "3", "--no-wait"))
    assert simulated.get("rayservice", "kept")["spec"]["rayClusterConfig"]["suspend"] is True
    assert simulated.items("pods", f"ray.io/cluster={before}") == []

    simulated.run("resume", *where)
    assert simulated.run("status", *where, "-o", "json").json()["state"] == "Ready"
    (after,) = [item["metadata"]["name"] for item in simulated.items("rayclusters")]
    assert after == before
    assert most_workers(simulated) == {3}


def active(bench: Bench) -> str:
    return str(bench.get("rayservice", "kept")["status"]["activeServiceStatus"]["rayClusterName"])


@pytest.mark.slow
def test_the_only_replica_goes_first_where_nothing_else_gives_gpus(simulated: Bench) -> None:
    deploy = flags(simulated)
    simulated.run(*deploy)
    first = active(simulated)
    hold(simulated, {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "4"})  # the large one first, on the node that is free
    change = [*deploy, "--env", "COLOR=blue"]
    refused = simulated.run(*change, code=1)
    assert "does not fit beside the running one (each model has one replica)" in refused.err, str(refused)
    assert active(simulated) == first
    made = simulated.run(*change, "--accept-outage")
    assert f"raycluster/{first} deleted" in made.err, str(made)
    assert active(simulated) != first

"""Mode raycluster over simulated GPU nodes: which pods a server has, and what fits."""

from __future__ import annotations

import pytest

from e2e.harness import LLAMA, Bench
from e2e.running import Running

pytestmark = pytest.mark.xdist_group("simulated")

MODE = ("--kind", "raycluster")


def gpus(bench: Bench, group: str) -> list[tuple[str, int]]:
    """Node and number of GPUs of each pod of a group."""
    return sorted(
        (item["spec"]["nodeName"], int(item["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]))
        for item in bench.items("pods", f"ray.io/group={group}")
    )


def test_tp_4_is_one_server_with_four_gpus(simulated: Bench) -> None:
    simulated.run(*LLAMA, *MODE, "--tp", "4", "--replicas", "2", "-n", simulated.namespace)
    assert [count for _, count in gpus(simulated, "server")] == [4, 4]
    assert not simulated.items("pods", "ray.io/group=workers")


def test_pp_2_is_a_server_and_a_further_pod_on_another_node(simulated: Bench) -> None:
    simulated.run(*LLAMA, *MODE, "--name", "wide", "--tp", "8", "--pp", "2", "-n", simulated.namespace)
    server, member = gpus(simulated, "server"), gpus(simulated, "workers")
    assert [count for _, count in (*server, *member)] == [8, 8]
    assert server[0][0] != member[0][0]
    simulated.run("delete", "wide", "-n", simulated.namespace)
    assert not simulated.items("pods")


@pytest.mark.slow
def test_what_the_nodes_cannot_hold_waits_and_says_for_what(simulated: Bench) -> None:
    args = (*LLAMA, *MODE, "--name", "many", "--tp", "8", "--replicas", "3", "-n", simulated.namespace)
    deploy = Running(simulated, *args)
    deploy.says("InsufficientGPU")
    deploy.interrupt()
    assert deploy.ended()[0] == 130


def test_replicas_that_scale_are_rejected_before_anything_is_applied(simulated: Bench) -> None:
    result = simulated.run(*LLAMA, *MODE, "--tp", "4", "--max-replicas", "3", "-n", simulated.namespace, code=2)
    assert "no autoscaler" in result.err, str(result)
    assert not simulated.items("rayclusters")

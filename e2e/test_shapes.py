"""GPU shapes on simulated nodes: what fits becomes ready, and what does not fit waits or is refused."""

from __future__ import annotations

import json

import pytest

from e2e.harness import LLAMA, Bench, Object
from e2e.running import Running

pytestmark = pytest.mark.xdist_group("simulated")


def gpus(pod: Object) -> int:
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


def workers(bench: Bench) -> list[Object]:
    return bench.items("pods", "ray.io/node-type=worker")


def test_llama_70b_becomes_ready_with_its_four_gpus_on_one_node(simulated: Bench) -> None:
    simulated.run(*LLAMA, "--tp", "4", "-n", simulated.namespace)
    holders = [pod for pod in workers(simulated) if gpus(pod)]
    assert [gpus(pod) for pod in holders] == [4]
    node = simulated.kubectl("get", "node", holders[0]["spec"]["nodeName"], "-o", "json")
    assert json.loads(node)["metadata"]["labels"]["nvidia.com/gpu.product"].startswith("NVIDIA-H100")


def test_what_the_nodes_cannot_hold_waits_and_says_for_what(simulated: Bench) -> None:
    args = (*LLAMA, "--name", "many", "--tp", "8", "--replicas", "3", "-n", simulated.namespace)
    deploy = Running(simulated, *args)
    deploy.says("InsufficientGPU")
    deploy.interrupt()
    assert deploy.ended()[0] == 130


def test_tp_16_over_nodes_of_8_is_refused_before_anything_is_applied(simulated: Bench) -> None:
    result = simulated.run(*LLAMA, "--tp", "16", "-n", simulated.namespace, code=1)
    assert "16" in result.err
    assert "nothing was rendered or applied" in result.err
    assert not simulated.items("rayservices")


def test_tp_16_over_two_nodes_of_8_runs_by_the_user_s_word(simulated: Bench) -> None:
    simulated.run(*LLAMA, "--name", "wide", "--tp", "16", "--tp-across-nodes", "-n", simulated.namespace)
    holders = [pod for pod in workers(simulated) if gpus(pod)]
    assert [gpus(pod) for pod in holders] == [8, 8]
    assert len({pod["spec"]["nodeName"] for pod in holders}) == 2

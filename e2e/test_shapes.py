"""GPU shapes: simulated nodes of any size, and a real node that claims GPUs, with a stand-in for the engine."""

from __future__ import annotations

import json

from e2e.harness import LLAMA, Bench, Object, Target, Watched
from e2e.load import Load

ENGINE = "rayllm_standin.engine:StandInEngine"


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
    args = (*LLAMA, "--name", "many", "--tp", "8", "--replicas", "3", "-n", simulated.namespace, "--timeout", "45s")
    result = simulated.run(*args, code=3)
    assert "InsufficientGPU" in result.err, str(result)


def test_tp_16_over_nodes_of_8_is_refused_before_anything_is_applied(simulated: Bench) -> None:
    result = simulated.run(*LLAMA, "--tp", "16", "-n", simulated.namespace, code=1)
    assert "16" in result.err
    assert "nothing was applied" in result.err
    assert not simulated.items("rayservices")


def test_tp_16_over_two_nodes_of_8_runs_by_the_user_s_word(simulated: Bench) -> None:
    simulated.run(*LLAMA, "--name", "wide", "--tp", "16", "--tp-across-nodes", "-n", simulated.namespace)
    holders = [pod for pod in workers(simulated) if gpus(pod)]
    assert [gpus(pod) for pod in holders] == [8, 8]
    assert len({pod["spec"]["nodeName"] for pod in holders}) == 2


def test_the_stand_in_engine_serves_and_scales_groups_of_four_gpus(own: Target, bench: Bench) -> None:
    name = "standin"
    args = [
        *LLAMA, "--name", name, "--tp", "4", "-n", bench.namespace, "--image", own.image,
        "--model-path", "/models/tiny", "--min-replicas", "1", "--max-replicas", "2", "--target-ongoing-requests", "2",
        "--upscale-delay", "2s", "--downscale-delay", "10s", "--env", f"RAYLLM_VLLM_ENGINE_CLS={ENGINE}",
        "--cpu", "2", "--memory", "3Gi",
    ]  # fmt: skip
    bench.run(*args)
    assert [gpus(pod) for pod in workers(bench)] == [4]
    answer = bench.run("chat", name, "Hello", "-n", bench.namespace, "--max-tokens", "12")
    assert len(answer.out.split()) >= 3
    with Watched(bench, name) as watched, bench.forwarded(f"{name}-serve-svc") as base:
        with Load(base, "meta-llama/Llama-3.1-70B-Instruct", clients=6, max_tokens=64) as load:
            bench.wait("two replicas of four GPUs", lambda: watched.running[-1] == 2, timeout=300)
        assert not load.failed, load.failed[:3]
        assert load.answered > 0
        bench.wait("one replica again", lambda: watched.running[-1] == 1, timeout=180)
        bench.wait("one group of four GPUs again", lambda: [gpus(pod) for pod in workers(bench)] == [4], timeout=240)
    assert watched.running[:3] == [1, 2, 1], watched.running

"""Data parallelism: ranks with requests and attention of their own, which share the routed experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import Engine, LLMService, Load, Model, Parallelism
from rayllm_ctl.planner.memory.shards import ShardSettings, stage_tensors, stages
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request, Workload
from rayllm_ctl.planner.speed.coefficients import DENSE, UNCERTAIN
from rayllm_ctl.planner.speed.figures import at_load, likely
from rayllm_ctl.planner.speed.replica import ReplicaSpeed
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.facts import dense, moe
from tests.planner.gpus import H100
from tests.planner.known import facts_of

LOAD = Workload(1024, 256, None, None, None, None, stated=False)


@pytest.mark.parametrize(
    ("name", "tensor", "data", "expert_parallel", "expected"),
    [
        ("Qwen/Qwen3-30B-A3B", 1, 2, False, 32073216000),
        ("Qwen/Qwen3-30B-A3B", 2, 2, False, 16049401856),
        ("Qwen/Qwen3-30B-A3B", 2, 2, True, 16049401856),
        ("Qwen/Qwen3-30B-A3B", 1, 8, True, 10329944064),
        ("deepseek-ai/DeepSeek-R1", 2, 2, False, 345102983168),
        ("deepseek-ai/DeepSeek-R1", 2, 2, True, 347657314304),  # with whole shared experts
        ("deepseek-ai/DeepSeek-R1", 1, 8, True, 197712519168),
        ("deepseek-ai/DeepSeek-R1", 2, 4, True, 184180121600),
        ("zai-org/GLM-4.5-Air", 1, 8, True, 39352539648),
        ("mistralai/Mixtral-8x7B-v0.1", 2, 4, True, 12881240064),
    ],
)
def test_a_ranks_parameters_are_those_of_vllm(
    name: str, tensor: int, data: int, expert_parallel: bool, expected: int
) -> None:
    """Models that vLLM 0.29's own classes make on torch's meta device, in 16 bits."""
    facts = facts_of(name, plain=True)
    (stage,) = stages(facts, 1)
    shape = ShardSettings(tensor, 2, None, expert_parallel=expert_parallel, data=data)
    assert sum(stage_tensors(facts, stage, shape)) == expected


def test_experts_that_balance_load_are_loaded_twice() -> None:
    facts = facts_of("Qwen/Qwen3-30B-A3B")
    (stage,) = stages(facts, 1)
    plain = ShardSettings(1, 2, None, expert_parallel=True, data=8)
    more = sum(stage_tensors(facts, stage, replace(plain, redundant=32))) - sum(stage_tensors(facts, stage, plain))
    assert more == 48 * (32 // 8) * 3 * 2048 * 768 * 2


def planned(facts: ModelFacts, gpu: str = "H100-80GB", *, nodes: bool = False, **args: Any) -> Plan:
    service = LLMService(
        "test",
        Model("test/model"),
        engine=Engine(args=args, max_model_len=16384),
        parallelism=Parallelism(1, None, nodes),
        load=Load(input_tokens=2000, output_tokens=500),
    )
    return decide(Request(service, facts, "test", engine("0.29.0"), (find_gpu(gpu),)))


def test_a_replica_has_the_gpus_of_all_ranks_and_each_its_own_kv_cache() -> None:
    facts = facts_of("Qwen/Qwen3-30B-A3B")
    alone = planned(facts, enable_expert_parallel=True)
    group = planned(facts, data_parallel_size=4, enable_expert_parallel=True)
    assert group.parallelism is not None
    assert (group.parallelism.data, group.parallelism.gpus_per_replica) == (4, 4)
    assert group.pods is not None
    assert (group.pods.gpus_per_worker, group.pods.workers_per_replica) == (4, 1)
    assert group.memory is not None
    assert alone.memory is not None
    assert group.memory.weights_bytes < 0.4 * alone.memory.weights_bytes
    assert group.throughput is not None
    assert alone.throughput is not None
    assert group.throughput.concurrency_at_load.typical > 4 * alone.throughput.concurrency_at_load.typical
    assert group.cost is not None
    assert alone.cost is not None
    assert group.cost.known
    assert alone.cost.known
    assert group.cost.per_hour.typical == pytest.approx(4 * alone.cost.per_hour.typical, abs=0.03)
    assert any("planned only" in note for note in group.notes)
    assert "data parallelism with shared experts: not measured" in group.throughput.extrapolated


def test_the_workspace_of_experts_holds_the_tokens_of_all_ranks() -> None:
    """Two buffers of tokens x top_k x 2,048 in 16 bits, kept for all layers."""
    facts = facts_of("Qwen/Qwen3-30B-A3B")
    one, eight = (planned(facts, data_parallel_size=data, enable_expert_parallel=True).memory for data in (1, 8))
    assert one is not None
    assert eight is not None
    assert eight.activation_bytes - one.activation_bytes > 6 * 8192 * 8 * 2 * 2048 * 2


def test_more_ranks_than_a_node_has_gpus_need_consent() -> None:
    facts = facts_of("Qwen/Qwen3-30B-A3B")
    refused = planned(facts, data_parallel_size=16)
    assert (refused.verdict, refused.reasons[0].code) == ("invalid", "data-parallel-across-nodes")
    assert "--tp-across-nodes" in refused.reasons[0].message
    assert planned(facts, nodes=True, data_parallel_size=16).runs
    assert planned(dense(), data_parallel_size=16).runs, "ranks without experts do not meet"


def test_experts_are_cut_by_all_ranks_unless_they_are_spread_whole() -> None:
    """768 columns over 16 ranks hold no whole block of 128, and 2,048 do."""
    facts = facts_of("Qwen/Qwen3-30B-A3B-FP8")
    cut = planned(facts, "H20-96GB", nodes=True, data_parallel_size=16)
    assert cut.reasons[0].code.startswith("tensor-parallel")
    assert planned(facts, "H20-96GB", nodes=True, data_parallel_size=16, enable_expert_parallel=True).runs


def test_ranks_of_a_dense_model_are_replicas() -> None:
    found = planned(dense(), data_parallel_size=4)
    alone = planned(dense())
    assert found.memory == alone.memory
    assert any("--replicas" in note for note in found.notes)


def rate(facts: ModelFacts, data: int = 1, tensor: int = 1, **others: Any) -> ReplicaSpeed:
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    return ReplicaSpeed(work, H100, tensor, 1, 8192, data=data, **others)


def test_four_ranks_without_experts_answer_as_four_replicas() -> None:
    group, alone = likely(rate(dense(), 4), LOAD, 128), likely(rate(dense()), LOAD, 32)
    assert group.requests_per_second == pytest.approx(4 * alone.requests_per_second)
    assert (group.ttft, group.tpot) == pytest.approx((alone.ttft, alone.tpot))
    few = likely(rate(dense(), 4), LOAD, 2)
    assert few.requests_per_second == pytest.approx(2 * likely(rate(dense()), LOAD, 1).requests_per_second)


def test_a_rank_reads_its_share_of_the_experts_that_all_choose() -> None:
    """32 requests on each of 8 ranks touch nearly all 128 experts, of which a rank holds 16."""
    facts = moe()
    group, alone = rate(facts, 8), rate(facts)
    saved = (alone.work.expert_bytes(32) - group.work.expert_bytes(256) / 8) / (0.92 * H100.bandwidth)
    exchanged = group.step(32, 1000, ranks=8) - (alone.step(32, 1000) - saved)
    hidden, layers, link = 2048, 48, group.coefficients.link * H100.link_bandwidth
    assert exchanged == pytest.approx(2 * layers * 7 * 32 * hidden * 2 / link, rel=0.01)


def test_a_prompt_alone_has_the_experts_of_idle_ranks() -> None:
    facts = moe()
    assert rate(facts, 8).prompt(4000) < rate(facts).prompt(4000)
    assert rate(facts, 8).prompt(4000, ranks=8) > rate(facts).prompt(4000)


def test_tokens_go_only_to_ranks_whose_experts_are_chosen_unless_all_are_gathered() -> None:
    facts = moe()
    assert rate(facts, 32, gathered=False).step(64, 1000, ranks=32) < rate(facts, 32).step(64, 1000, ranks=32)


def test_the_band_is_that_of_what_is_not_measured() -> None:
    found, typical = at_load(rate(dense(), 2), LOAD, 2).tpot, likely(rate(dense(), 2), LOAD, 2).tpot
    assert found.high == pytest.approx(typical * DENSE.tpot.high * UNCERTAIN)

"""Weights: a rank's tensors against vLLM's own, the allocator, quantization, pipeline stages."""

from __future__ import annotations

import random

import pytest

from rayllm_ctl.model.plan.facts import Experts, Linear, ModelFacts, Part, Scheme
from rayllm_ctl.planner.memory.allocator import allocated
from rayllm_ctl.planner.memory.shards import (
    Padding,
    ShardSettings,
    expert_tensors,
    linear_tensors,
    scheme_tensors,
    stage_tensors,
    stages,
)
from tests.planner.facts import dense, moe
from tests.planner.known import PARAMETERS, estimated, facts_of

GIB = 2**30
MIB = 2**20


@pytest.mark.parametrize(("name", "tensor", "expected"), PARAMETERS)
def test_a_ranks_parameters_are_those_of_vllm(name: str, tensor: int, expected: int) -> None:
    facts = facts_of(name, plain=True)
    (stage,) = stages(facts, 1)
    assert sum(stage_tensors(facts, stage, ShardSettings(tensor))) == expected


@pytest.mark.parametrize(
    ("name", "gpu", "version", "tensor", "gib"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.19.0", 1, 14.99),
        ("Qwen/Qwen2.5-7B-Instruct", "H100-80GB", "0.19.0", 4, 3.55),
        ("Qwen/Qwen3-14B", "L40S", "0.29.0", 1, 27.52),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "H100-80GB", "0.19.0", 1, 29.43),
        ("moonshotai/Kimi-VL-A3B-Instruct", "H100-80GB", "0.19.0", 2, 15.54),
        ("openai/gpt-oss-20b", "A100-80GB", "0.19.0", 1, 13.72),
        ("openai/gpt-oss-120b", "A100-80GB", "0.10.1", 4, 17.22),
        ("openai/gpt-oss-120b", "H100-80GB", "0.11.0", 1, 64.38),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200-141GB", "0.10.2", 2, 74.28),
        ("google/gemma-2-9b-it", "H100-80GB", "0.19.0", 1, 17.22),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "H100-80GB", "0.19.0", 1, 5.38),
    ],
)
def test_what_model_loading_took_in_start_up_logs(name: str, gpu: str, version: str, tensor: int, gib: float) -> None:
    """Logs of llm-d-planner's accuracy runs and of the blogs that the planner's evidence names."""
    found = estimated(name, gpu, version, tensor=tensor).plan.weights_bytes / GIB
    assert found == pytest.approx(gib, rel=0.003)


def test_small_tensors_are_rounded_to_512_bytes() -> None:
    assert allocated([1, 513]) == 512 + 1024


def test_a_large_tensor_takes_a_segment_of_whole_2_mib() -> None:
    """Up to 1 MiB that is left of the segment stays with the tensor; more is split off."""
    assert allocated([11 * MIB + 600 * 1024]) == 12 * MIB
    assert allocated([10 * MIB + 512 * 1024]) == 10 * MIB + 512 * 1024


def test_the_rest_of_a_segment_serves_later_tensors() -> None:
    assert allocated([3 * MIB, 4 * MIB, 5 * MIB]) == 12 * MIB


def test_the_allocator_never_counts_less_than_the_tensors() -> None:
    rng = random.Random(7)
    for _ in range(200):
        sizes = [rng.randint(1, 40 * MIB) for _ in range(rng.randint(1, 40))]
        assert sum(sizes) <= allocated(sizes) <= sum(sizes) + len(sizes) * (MIB + 512) + 2 * MIB


def test_kv_heads_are_repeated_where_ranks_outnumber_them() -> None:
    linear = Linear("qkv", 1024, (Part(32, 128), Part(4, 128, True), Part(4, 128, True)))
    assert list(linear_tensors(linear, ShardSettings(8))) == [1024 * (4 + 1 + 1) * 128 * 2]
    assert list(linear_tensors(linear, ShardSettings(1))) == [1024 * 40 * 128 * 2]


def test_a_row_split_divides_the_inputs() -> None:
    linear = Linear("o", 4096, (Part(1024),), "row", input_units=32, bias=True)
    assert list(linear_tensors(linear, ShardSettings(4))) == [1024 * 1024 * 2, 1024 * 2]


def test_a_replicated_layer_is_whole_on_every_rank() -> None:
    linear = Linear("gate", 4096, (Part(64),), "none", float32=True)
    assert list(linear_tensors(linear, ShardSettings(8))) == [4096 * 64 * 4]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (Scheme("fp8", 8, floating=True, block=(128, 128)), [1024 * 512, 8 * 4 * 4]),
        (Scheme("fp8", 8, floating=True, group=-1, input_scale=True), [1024 * 512, 4, 4]),
        (Scheme("compressed-tensors", 8, group=0), [1024 * 512, 512 * 4]),
        (Scheme("awq", 4, group=128, scale_bytes=2, zero_points=True), [1024 * 512 // 2, 512 * 8 * 2, 512 * 8 // 2]),
        (Scheme("modelopt_fp4", 4, floating=True, group=16, scale_bytes=1, global_scale=True), [262144, 512 * 64, 4]),
    ],
)
def test_what_a_quantized_weight_stores(scheme: Scheme, expected: list[int]) -> None:
    assert list(scheme_tensors(scheme, 1024, 512)) == expected


def test_experts_are_divided_by_width_or_spread_whole() -> None:
    experts = Experts(64, 8, 2048, 768)
    whole = sum(expert_tensors(experts, ShardSettings(1)))
    assert whole == 64 * 3 * 2048 * 768 * 2
    assert sum(expert_tensors(experts, ShardSettings(4))) == whole // 4
    assert sum(expert_tensors(experts, ShardSettings(4, expert_parallel=True))) == whole // 4
    uneven = Experts(6, 2, 2048, 768)
    assert sum(expert_tensors(uneven, ShardSettings(4, expert_parallel=True))) == 2 * 3 * 2048 * 768 * 2


def test_kernels_for_mxfp4_pad_the_experts() -> None:
    experts = Experts(32, 4, 2880, 2880, scheme=Scheme("mxfp4", 4, floating=True, group=32, scale_bytes=1))
    plain = sum(expert_tensors(experts, ShardSettings(1)))
    padded = sum(expert_tensors(experts, ShardSettings(1, mxfp4=Padding(128, 256))))
    assert padded / plain == pytest.approx((3072 * 2944) / (2880 * 2880), rel=1e-6)


def test_stages_share_the_layers_as_vllm_does() -> None:
    """What is left over goes to the stages before the last one (distributed/utils.py get_pp_indices)."""
    assert [len(stage.layers) for stage in stages(dense(layers=32), 3)] == [11, 11, 10]
    sizes = [len(stage.layers) for stage in stages(dense(layers=61), 8)]
    assert sum(sizes) == 61
    assert max(sizes) - min(sizes) == 1
    assert sizes[-1] == min(sizes)


def test_the_stages_together_hold_the_model() -> None:
    facts = dense()
    whole = sum(stage_tensors(facts, stages(facts, 1)[0], ShardSettings(1)))
    parts = [sum(stage_tensors(facts, stage, ShardSettings(1))) for stage in stages(facts, 4)]
    assert sum(parts) == whole
    assert parts[0] > parts[1] < parts[3]


@pytest.mark.parametrize("facts", [dense(), moe()], ids=["dense", "moe"])
def test_more_ranks_hold_less_each(facts: ModelFacts) -> None:
    sizes = [estimated(facts, tensor=n).plan.weights_bytes for n in (1, 2, 4, 8)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= sizes[0] / 8


def test_quantizing_while_loading_halves_the_layers() -> None:
    plain, online = estimated(dense()).plan, estimated(dense(), quantization="fp8").plan
    embeddings = 2 * 128256 * 4096 * 2
    assert online.parameter_bytes - embeddings == pytest.approx((plain.parameter_bytes - embeddings) / 2, rel=1e-4)


def test_a_quantized_checkpoint_is_not_quantized_again() -> None:
    facts = facts_of("Qwen/Qwen3-30B-A3B-FP8")
    assert estimated(facts, quantization="fp8").plan.weights_bytes == estimated(facts).plan.weights_bytes


def test_float32_doubles_the_tensors() -> None:
    assert estimated(dense(), dtype="float32").plan.parameter_bytes == 2 * estimated(dense()).plan.parameter_bytes

"""vLLM's rules by version, back end and kind of GPU, each as its sources of that version have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.model.plan.facts import Experts
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory.activations import (
    ProfileRun,
    encoder_bytes,
    expert_workspace,
    held_bytes,
    sampler_of,
    sparse_workspace,
    workspace_bytes,
)
from rayllm_ctl.planner.memory.engine import packs_sparse_latent
from rayllm_ctl.planner.memory.graphs import capture_sizes, graph_memory, largest_size
from rayllm_ctl.planner.memory.moekernels import expert_kernel
from rayllm_ctl.planner.memory.overheads import fuses_all_reduce, non_torch
from rayllm_ctl.planner.memory.runner import uses_second_runner
from rayllm_ctl.planner.memory.shards import Padding, ShardSettings, expert_tensors
from tests.planner.facts import dense, moe
from tests.planner.known import estimated, facts_of

GIB = 2**30
GPT_OSS = "openai/gpt-oss-120b"


@pytest.mark.parametrize(
    ("version", "gib", "near"), [("0.11.0", 64.38, 0.002), ("0.16.0", 64.38, 0.002), ("0.25.1", 61.29, 0.006)]
)
def test_mxfp4_experts_on_hopper_take_what_logs_say(version: str, gib: float, near: float) -> None:
    found = estimated(GPT_OSS, version=version, length=16000)
    assert found.plan.weights_bytes / GIB == pytest.approx(gib, rel=near)


def test_triton_swizzles_values_and_scales() -> None:
    """2,880 inputs and 5,760 outputs: values as they are, scales to 5,888 outputs; 128 inputs a step from 0.17 to 0.21;
    the scales as loaded are freed since 0.25."""
    experts = facts_of(GPT_OSS).layers[0].experts[0]
    one = replace(experts, count=1, bias=False)

    def tensors(release: tuple[int, int, int]) -> list[int]:
        kernel = expert_kernel(release, find_gpu("H100-80GB"), facts_of(GPT_OSS), None, adapters=False)
        return list(expert_tensors(one, ShardSettings(mxfp4=kernel.padding)))

    values, first, swizzled = 5760 * 2880 // 2, 5760 * 90, 5888 * 90
    assert tensors((0, 11, 0))[:3] == [values, first, swizzled]
    assert tensors((0, 19, 0))[:3] == [5760 * 2944 // 2, first, swizzled]
    assert tensors((0, 25, 0))[:2] == [values, swizzled]


def test_biases_of_triton_experts_are_float32() -> None:
    experts = Experts(4, 2, 64, 64, bias=True, scheme=facts_of(GPT_OSS).layers[0].experts[0].scheme)
    plain = sum(expert_tensors(experts, ShardSettings(mxfp4=Padding())))
    wide = sum(expert_tensors(experts, ShardSettings(mxfp4=Padding(bias_bytes=4))))
    assert wide - plain == 4 * (128 + 64) * 2


@pytest.mark.parametrize(
    ("gpu", "name", "monolithic"),
    [("H100-80GB", "OpenAI Triton", True), ("A100-80GB", "Marlin", False), ("B200", "FlashInfer TRT-LLM", True)],
)
def test_which_kernel_runs_mxfp4_experts(gpu: str, name: str, monolithic: bool) -> None:
    kernel = expert_kernel((0, 26, 0), find_gpu(gpu), facts_of(GPT_OSS), None, adapters=False)
    assert (kernel.name, kernel.monolithic) == (name, monolithic)


def test_adapters_and_other_models_leave_triton_on_hopper() -> None:
    hopper = find_gpu("H100-80GB")
    assert expert_kernel((0, 26, 0), hopper, facts_of(GPT_OSS), None, adapters=True).name == "Marlin"
    other = replace(facts_of(GPT_OSS), architecture="DeepseekV4ForCausalLM")
    assert expert_kernel((0, 26, 0), hopper, other, None, adapters=False).name == "Marlin"


def test_monolithic_kernels_keep_no_workspace() -> None:
    load = ProfileRun(8192, 256, 1, 2, images=False)
    kept = workspace_bytes(moe(), (0, 26, 0), load, monolithic=False, packed=False)
    assert kept == 8192 * 8 * (2048 + 2048) * 2
    assert workspace_bytes(moe(), (0, 26, 0), load, monolithic=True, packed=False) == 0
    assert workspace_bytes(moe(), (0, 12, 0), load, monolithic=False, packed=False) == 0


def test_gpt_oss_captures_larger_batches() -> None:
    facts = facts_of(GPT_OSS)
    assert capture_sizes(largest_size(facts, (0, 11, 0), seqs=8, tokens=8192)) == 81
    assert capture_sizes(largest_size(facts, (0, 12, 0), seqs=8, tokens=8192)) == 83
    assert largest_size(facts, (0, 26, 0), seqs=8, tokens=512) == 512
    assert capture_sizes(largest_size(dense(), (0, 26, 0), seqs=1024, tokens=8192)) == 51


def test_the_profile_run_warms_up_both_samplers_since_0_21() -> None:
    for release in ((0, 19, 0), (0, 21, 0), (0, 26, 0)):
        assert sampler_of(release, second_runner=False).least == 0.0
    assert sampler_of((0, 11, 0), second_runner=False).least == 7.5
    assert sampler_of((0, 11, 1), second_runner=False).least == 0.0


def test_flashinfer_s_sampler_is_used_where_it_is_asked_for() -> None:
    """v1/sample/ops/topk_topp_sampler.py: with VLLM_USE_FLASHINFER_SAMPLER=1 from 0.11.1 on (0.18), where it is
    installed unless it is 0 before (0.10.2), and never for processed log probabilities or outside CUDA."""
    wide = dense(vocab=201088)

    def peak(version: str, gpu: str = "H100-80GB", asked: str = "", **args: Any) -> tuple[float, float]:
        env = {"VLLM_USE_FLASHINFER_SAMPLER": asked} if asked else {}
        activation = estimated(wide, gpu, version, seqs=1024, env=env, **args).activation
        return round(activation.low / GIB, 1), round(activation.typical / GIB, 1)

    assert peak("0.10.2") == (1.9, 7.4)
    assert peak("0.10.2", asked="0") == (7.3, 7.4)
    assert peak("0.10.2", logprobs_mode="processed_logprobs") == (7.3, 7.4)
    assert peak("0.10.2", "MI300X") == (7.3, 7.4)
    assert peak("0.12.0") == (7.3, 7.4)
    assert peak("0.12.0", asked="1") == (1.9, 1.9)
    assert peak("0.18.0", asked="1")[1] < peak("0.18.0")[1]
    assert peak("0.21.0", asked="1") == peak("0.21.0")


def test_sparse_latent_caches_are_packed_but_on_blackwell_servers() -> None:
    assert packs_sparse_latent((0, 26, 0), find_gpu("H200-141GB"))
    assert packs_sparse_latent((0, 26, 0), find_gpu("RTX-5090"))
    assert not packs_sparse_latent((0, 26, 0), find_gpu("B200"))
    assert packs_sparse_latent((0, 16, 0), find_gpu("B200"))
    facts = facts_of("deepseek-ai/DeepSeek-V3.2")

    def page(gpu: str) -> int:
        found = estimated(facts, gpu, "0.26.0", tensor=8, kv="fp8")
        return next(group.page_bytes // group.block_size for group in found.groups if group.kind == "mla")

    assert (page("H200-141GB"), page("B200")) == (656, 576)


def test_sparse_latent_attention_keeps_a_buffer_for_prompts() -> None:
    """DeepSeek V3.2: 40 x 163,840 x 132 bytes (825 MiB)."""
    assert sparse_workspace(163840, packed=False) == 865_075_200
    assert sparse_workspace(163840, packed=True) == 163840 * 5 * 1152
    short, long = (
        estimated(facts_of("deepseek-ai/DeepSeek-V3.2"), "H200-141GB", "0.26.0", tensor=8, tokens=1024, length=length)
        for length in (8192, 163840)
    )
    assert long.plan.activation_bytes - short.plan.activation_bytes > 0.4 * GIB


def test_deepstack_widens_the_outputs_of_an_encoder() -> None:
    facts = facts_of("Qwen/Qwen3-VL-8B-Instruct")
    (encoder,) = facts.encoders
    assert encoder.levels == 3
    load = ProfileRun(8192, 256, 1, 2, images=True, context=32768)
    more = held_bytes(encoder, facts, load, (0, 19, 0)) - held_bytes(
        replace(encoder, levels=0), facts, load, (0, 19, 0)
    )
    assert more == 3 * 16384 * facts.hidden_size * 2
    expanded = held_bytes(encoder, facts, load, (0, 11, 0)) - held_bytes(encoder, facts, load, (0, 12, 0))
    assert expanded == (153_600 - 16384) * 4 * facts.hidden_size * 2


def test_deepstack_buffers_count_while_the_weights_load() -> None:
    facts = facts_of("Qwen/Qwen3-VL-8B-Instruct")
    flat = replace(facts, encoders=tuple(replace(encoder, levels=0) for encoder in facts.encoders))
    more = estimated(facts).plan.weights_bytes - estimated(flat).plan.weights_bytes
    assert more == 3 * 8192 * facts.hidden_size * 2


@pytest.mark.parametrize(
    ("release", "gpu", "tensor", "pipeline", "eager", "fused"),
    [
        ((0, 16, 0), "H100-80GB", 2, 1, False, False),
        ((0, 17, 0), "H100-80GB", 2, 1, False, True),
        ((0, 17, 0), "H100-80GB", 2, 1, True, False),
        ((0, 17, 0), "H100-80GB", 2, 2, False, False),
        ((0, 21, 0), "H100-80GB", 2, 2, False, True),
        ((0, 19, 0), "B200", 8, 1, False, True),
        ((0, 26, 0), "A100-80GB", 2, 1, False, False),
        ((0, 26, 0), "H100-80GB", 1, 1, False, False),
    ],
)
def test_where_the_all_reduce_is_fused(
    release: tuple[int, int, int], gpu: str, tensor: int, pipeline: int, eager: bool, fused: bool
) -> None:
    assert fuses_all_reduce(release, find_gpu(gpu), tensor, pipeline, eager=eager) is fused


def test_the_fusion_takes_memory_outside_torch() -> None:
    """H100 at TP 2: 0.54 GiB before 0.17, 2.07 since."""
    before, since = (non_torch(release, find_gpu("H100-80GB"), 2, 1) for release in ((0, 16, 0), (0, 17, 0)))
    assert before.low / GIB < 0.54 < before.high / GIB
    assert since.typical / GIB == pytest.approx(2.07)


@pytest.mark.parametrize(
    ("model", "tensor", "gib"),
    [
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 1, 1.57),
        ("moonshotai/Kimi-VL-A3B-Instruct", 1, 1.50),
        ("moonshotai/Kimi-VL-A3B-Instruct", 2, 1.26),
    ],
)
def test_graphs_of_mixtures_with_latent_attention(model: str, tensor: int, gib: float) -> None:
    found = graph_memory(
        facts_of(model),
        find_gpu("H100-80GB"),
        (0, 19, 0),
        seqs=1024,
        tokens=8192,
        tensor=tensor,
        pipeline=1,
        second_runner=False,
    )
    assert found.used.typical / GIB == pytest.approx(gib, rel=0.06)


def test_awq_weights_grew_with_0_24() -> None:
    """Qwen3-14B-AWQ on L40S, 0.28: 9.44 GiB."""
    before, since = (estimated("Qwen/Qwen3-14B-AWQ", "L40S", version).plan for version in ("0.23.0", "0.28.0"))
    assert since.weights_bytes / GIB == pytest.approx(9.44, rel=0.002)
    assert before.weights_bytes < since.weights_bytes
    assert before.parameter_bytes == since.parameter_bytes


def test_a_cold_start_on_cards_takes_what_logs_say() -> None:
    """Qwen3-14B on L40S, 0.28: 1.76 GiB besides weights, without graphs in the budget."""
    plan = estimated("Qwen/Qwen3-14B", "L40S", "0.28.0", utilization=0.92, length=40960).plan
    rest = plan.requested_bytes - plan.weights_bytes - plan.kv_cache_bytes.typical
    assert rest / GIB == pytest.approx(1.76, abs=0.05)


DRAFTING = {"model": "org/draft", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    ("version", "args", "env", "second"),
    [
        ("0.29.0", {}, {}, True),
        ("0.29.0", {}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False),
        ("0.19.0", {}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, True),
        ("0.29.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, {}, False),
        ("0.32.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, {}, True),
        ("0.29.0", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}, {}, True),
        ("0.29.0", {"speculative_config": {"method": "eagle3", **DRAFTING}}, {}, True),
        ("0.30.0", {"speculative_config": DRAFTING}, {}, False),
        ("0.31.0", {"speculative_config": DRAFTING}, {}, True),
        ("0.32.0", {"speculative_config": {"method": "medusa", **DRAFTING}}, {}, False),
        ("0.33.0", {"speculative_config": {"method": "medusa", **DRAFTING}}, {}, True),
        ("0.33.0", {"speculative_config": {"method": "suffix", **DRAFTING}}, {}, False),
        ("0.28.0", {"enable_prompt_embeds": True}, {}, False),
        ("0.29.0", {"enable_prompt_embeds": True}, {}, True),
        ("0.29.0", {"logits_processors": ["x:Y"]}, {}, False),
        ("0.29.0", {"kv_sharing_fast_prefill": True}, {}, False),
    ],
)
def test_what_falls_back_to_the_first_runner(
    version: str, args: dict[str, Any], env: dict[str, str], second: bool
) -> None:
    settings = ResolvedSettings(8192, 256, 8192, 0.9, args=args, env=env)
    assert uses_second_runner(dense(), find_gpu("H100-80GB"), engine(version), settings) is second


def test_the_first_runner_takes_its_graphs_off_the_budget() -> None:
    """An 8B in 0.26: the first runner's KV cache is about 1.2 GiB smaller."""
    second = estimated("meta-llama/Llama-3.1-8B-Instruct", version="0.26.0")
    first = estimated("meta-llama/Llama-3.1-8B-Instruct", version="0.26.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
    less = second.plan.kv_cache_bytes.typical - first.plan.kv_cache_bytes.typical
    assert 0.5 * GIB < less < 1.8 * GIB


def test_hybrids_do_not_cache_prefixes_before_0_28() -> None:
    def held(version: str, **args: Any) -> int:
        found = estimated("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200-141GB", version, tensor=2, **args)
        return next(group.blocks_per_request for group in found.groups if group.kind == "state")

    assert [held(version) for version in ("0.25.1", "0.26.0", "0.27.1", "0.28.0")] == [1, 1, 1, 2]
    assert held("0.26.0", enable_prefix_caching=True) == 2
    assert held("0.28.0", enable_prefix_caching=False) == 1


def test_experts_that_are_laid_out_anew_leave_holes_outside_the_budget() -> None:
    """gpt-oss on H100 at 0.95 with 1.6 GiB to spare failed; dense models with 0.1 to 0.35 started."""
    (problem,) = estimated(GPT_OSS, version="0.19.0", utilization=0.95, length=16000).problems
    assert problem.code == "outside-budget"
    assert "holes" in problem.message
    assert not estimated(GPT_OSS, version="0.19.0", utilization=0.92, length=16000).problems
    assert not estimated("Qwen/Qwen2.5-72B-Instruct", version="0.19.0", utilization=0.95, tensor=2).problems


HYBRID = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


@pytest.mark.parametrize(
    ("model", "version", "args", "limited"),
    [
        (HYBRID, "0.19.0", {}, False),
        (HYBRID, "0.20.0", {}, True),
        (HYBRID, "0.33.0", {}, True),
        (HYBRID, "0.26.0", {"eager": True}, False),
        (HYBRID, "0.26.0", {"compilation_config": {"cudagraph_mode": "piecewise"}}, False),
        (HYBRID, "0.26.0", {"compilation_config": '{"cudagraph_mode": "NONE"}'}, False),
        (HYBRID, "0.26.0", {"compilation_config": {"cudagraph_mode": "FULL"}}, True),
        (HYBRID, "0.26.0", {"compilation_config": {"cudagraph_mode": None}}, True),
        ("Qwen/Qwen3.5-27B", "0.26.0", {}, True),
        ("Qwen/Qwen3-8B", "0.26.0", {}, False),
    ],
)
def test_full_graphs_require_a_block_of_recurrent_state_for_each_sequence(
    model: str, version: str, args: dict[str, Any], limited: bool
) -> None:
    found = estimated(model, version=version, **args)
    assert found.most_sequences == (found.blocks if limited else None)


def test_blocks_of_a_hybrid_are_as_many_as_vllm_counts() -> None:
    """0.26 on H100: "max_num_seqs (1024) exceeds available Mamba cache blocks (888)"."""
    most = estimated(HYBRID, version="0.26.0", utilization=0.92).most_sequences
    assert most is not None
    assert most.low < 888 < most.high
    assert most.typical == pytest.approx(888, rel=0.02)


def test_encoders_that_every_rank_holds_whole() -> None:
    """--mm-encoder-tp-mode data: Qwen2.5-VL's visual.* is built with disable_tp (qwen2_5_vl.py, 0.10.2 to 0.33), so
    that a rank of TP 4 holds its 0.67e9 parameters in 16 bits instead of a quarter of them."""
    whole, cut = (
        estimated("Qwen/Qwen2.5-VL-7B-Instruct", tensor=4, mm_encoder_tp_mode=mode).plan.parameter_bytes
        for mode in ("data", "weights")
    )
    assert (whole - cut) / (2 * 0.676e9) == pytest.approx(3 / 4, rel=0.02)
    alone = [estimated("Qwen/Qwen2.5-VL-7B-Instruct", mm_encoder_tp_mode=mode).plan for mode in ("data", "weights")]
    assert alone[0] == alone[1]


def test_models_that_cannot_spread_items_divide_their_encoders() -> None:
    """config/model.py: "Falling back to `--mm-encoder-tp-mode weights`"; Qwen2-VL can since 0.11.1, Gemma 3 cannot."""
    for name, version, spreads in (
        ("google/gemma-3-12b-it", "0.29.0", False),
        ("Qwen/Qwen2-VL-7B-Instruct", "0.10.2", False),
        ("Qwen/Qwen2-VL-7B-Instruct", "0.11.1", True),
    ):
        whole, cut = (
            estimated(name, version=version, tensor=2, mm_encoder_tp_mode=mode).plan.parameter_bytes
            for mode in ("data", "weights")
        )
        assert (whole > cut) is spreads


def test_a_rank_runs_the_whole_encoder_on_its_share_of_the_items() -> None:
    encoder = facts_of("Qwen/Qwen2.5-VL-7B-Instruct").encoders[0]
    load = ProfileRun(4 * encoder.tokens, 8, 4, 2, images=True)
    spread = encoder_bytes(encoder, replace(load, spread=True))
    alone = encoder_bytes(encoder, replace(load, tensor=1, tokens=encoder.tokens))
    assert spread == alone


def test_the_workspace_of_experts_that_are_not_divided_is_as_wide_as_they_are() -> None:
    """fused_moe/experts/triton_moe.py workspace_shapes, 0.26: N is that of the rank's weights."""
    wide = replace(facts_of("mistralai/Mixtral-8x7B-v0.1").layers[0].experts[0], scheme=None)
    load = ProfileRun(8192, 1024, 4, 2, images=False)
    alone, divided = (expert_workspace(wide, replace(load, tensor=tensor)) for tensor in (1, 4))
    assert expert_workspace(wide, replace(load, expert_parallel=True)) == alone > divided

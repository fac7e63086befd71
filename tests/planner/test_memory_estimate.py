"""The estimate: start-up logs of vLLM, bands, options, what lies outside the budget."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.model.plan.facts import VideoProfile
from rayllm_ctl.model.plan.plan import Band
from rayllm_ctl.planner.memory import MemoryEstimate
from rayllm_ctl.planner.memory.activations import ProfileRun, encoder_bytes
from tests.planner.facts import dense, moe
from tests.planner.known import estimated, facts_of

GIB = 2**30

LOGS: tuple[tuple[str, str, str, dict[str, Any], float, float], ...] = (
    ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.19.0", {"utilization": 0.95}, 58.11, 0.005),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.19.0", {"utilization": 0.95, "tensor": 4}, 67.44, 0.005),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.19.0", {"utilization": 0.95, "pipeline": 2}, 65.63, 0.005),
    ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.11.0", {}, 51.38, 0.005),
    ("Qwen/Qwen3-14B", "H100-80GB", "0.15.1", {"utilization": 0.95}, 41.94, 0.005),
    ("Qwen/Qwen3-14B", "H100-80GB", "0.18.0", {"utilization": 0.95}, 45.23, 0.005),
    ("Qwen/Qwen3-30B-A3B", "H100-80GB", "0.19.0", {"utilization": 0.95}, 15.41, 0.005),
    ("google/gemma-3-12b-it", "H100-80GB", "0.19.0", {"utilization": 0.95}, 47.72, 0.005),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200-141GB", "0.10.2", {"tensor": 2, "length": 262144}, 44.59, 0.01),
    ("NousResearch/Llama-2-7b-hf", "A100-80GB", "0.19.0", {"length": 2048}, 58.37, 0.01),
    ("Qwen/Qwen3-14B", "L40S", "0.28.0", {"utilization": 0.92, "length": 40960}, 11.57, 0.05),
    ("Qwen/Qwen3-14B", "L40S", "0.29.0", {"utilization": 0.92, "length": 40960}, 11.06, 0.05),
    ("Qwen/Qwen3-14B-AWQ", "L4", "0.28.0", {"utilization": 0.92, "length": 40960}, 9.10, 0.05),
)
"""(model, GPU, version, settings, GiB of "Available KV cache memory" in the log, how near the estimate must be)."""


@pytest.mark.parametrize(("name", "gpu", "version", "settings", "gib", "near"), LOGS)
def test_the_kv_cache_of_start_up_logs(
    name: str, gpu: str, version: str, settings: dict[str, Any], gib: float, near: float
) -> None:
    band = estimated(name, gpu, version, **settings).plan.kv_cache_bytes
    assert band.typical / GIB == pytest.approx(gib, rel=near)
    assert band.low / GIB <= gib <= band.high / GIB


def test_concurrency_and_tokens_are_those_of_the_log() -> None:
    """Qwen3-14B on L40S, 0.29: "GPU KV cache size: 72,496 tokens", "1.77x"; here from the KV cache that it printed."""
    plan = estimated("Qwen/Qwen3-14B", "L40S", "0.29.0", length=40960, kv_cache_memory_bytes=int(11.064 * GIB)).plan
    assert plan.kv_cache_tokens.typical == pytest.approx(72496, rel=1e-3)
    assert plan.max_concurrency.typical == pytest.approx(1.77, abs=0.005)


def ordered(band: Band) -> bool:
    return band.low <= band.typical <= band.high


@pytest.mark.parametrize("facts", [dense(), moe(), facts_of("google/gemma-3-12b-it")], ids=["dense", "moe", "images"])
def test_bands_are_in_order_whatever_the_gpu_and_version(facts: Any) -> None:
    versions = ("0.8.5", "0.11.2", "0.19.0", "0.22.1", "0.26.0", "0.29.0", "0.32.0")
    for gpu, version in itertools.product(("T4", "L4", "A100-40GB", "H100-80GB", "B200", "MI300X"), versions):
        found = estimated(facts, gpu, version, tensor=2)
        plan = found.plan
        bands = (found.activation, found.non_torch, found.cuda_graphs, found.blocks, found.longest_context)
        all_bands = (*bands, plan.kv_cache_bytes, plan.kv_cache_tokens, plan.max_concurrency)
        assert [band for band in all_bands if not ordered(band)] == [], (gpu, version)


def capacity(found: MemoryEstimate) -> float:
    return found.plan.max_concurrency.typical


def test_a_longer_context_holds_fewer_requests() -> None:
    found = [capacity(estimated(dense(), length=length)) for length in (1024, 8192, 32768, 131072)]
    assert found == sorted(found, reverse=True)


def test_more_memory_holds_more_requests() -> None:
    assert capacity(estimated(dense(), utilization=0.8)) < capacity(estimated(dense(), utilization=0.9))
    assert capacity(estimated(dense())) < capacity(estimated(dense(), "H200-141GB", seqs=1024, tokens=8192))
    assert capacity(estimated(dense())) < capacity(estimated(dense(), tensor=2))
    assert capacity(estimated(dense(), kv="fp8")) == pytest.approx(2 * capacity(estimated(dense())), rel=0.01)


def test_a_larger_batch_or_more_requests_leave_less() -> None:
    base = estimated(dense(), tokens=8192, seqs=256)
    assert capacity(estimated(dense(), tokens=65536, seqs=256)) < capacity(base)
    assert capacity(estimated(dense(), tokens=8192, seqs=1024)) < capacity(base)


def test_graphs_are_off_the_budget_since_0_21() -> None:
    before = estimated(dense(), version="0.20.0", eager=True), estimated(dense(), version="0.20.0")
    assert before[0].plan.kv_cache_bytes == before[1].plan.kv_cache_bytes
    after = estimated(dense(), version="0.21.0", eager=True), estimated(dense(), version="0.21.0")
    assert after[0].plan.kv_cache_bytes.typical > after[1].plan.kv_cache_bytes.typical
    assert after[0].plan.cuda_graph_bytes == 0


def test_a_fixed_kv_cache_is_taken_as_it_is() -> None:
    found = estimated(dense(), kv_cache_memory_bytes=10 * GIB)
    assert found.plan.kv_cache_bytes == Band(10 * GIB, 10 * GIB, 10 * GIB)
    assert not found.problems
    (problem,) = estimated(dense(), kv_cache_memory_bytes=70 * GIB).problems
    assert problem.code == "kv-cache-too-large"


def test_adapters_take_memory() -> None:
    """Rank 16 on every projection of 32 layers, two matrices each."""
    plain, lora = estimated(dense()), estimated(dense(), enable_lora=True, max_loras=4)
    size = 32 * 16 * (3 * 4096 + 6144 + 4096 + 4096 + 2 * 4096 + 28672 + 14336 + 4096) * 2 * 4
    assert plain.plan.kv_cache_bytes.typical - lora.plan.kv_cache_bytes.typical == pytest.approx(size, rel=1e-6)


def test_weights_in_host_memory_leave_more() -> None:
    kept = estimated(dense(), cpu_offload_gb=4)
    assert estimated(dense()).plan.weights_bytes - kept.plan.weights_bytes == 4 * GIB


def test_draft_layers_are_loaded_with_speculation() -> None:
    facts = replace(dense(), draft_layers=dense().layers[:1])
    config = {"method": "mtp", "num_speculative_tokens": 1}
    plain, drafting = estimated(facts), estimated(facts, speculative_config=config)
    assert drafting.plan.parameter_bytes - plain.plan.parameter_bytes == pytest.approx(
        facts.layers[0].parameters * 2, rel=1e-3
    )
    assert sum(group.layers for group in drafting.groups) == 33


def test_a_video_as_long_as_a_request_may_be_is_what_vllm_profiles() -> None:
    facts = facts_of("google/gemma-3-12b-it")
    (encoder,) = facts.encoders
    video = VideoProfile(
        4 * encoder.tokens, 64 * encoder.patches, 64 * encoder.pixels, longest=32, beside=encoder.tokens
    )
    videos = replace(facts, encoders=(replace(encoder, video=video),))
    short, longer, longest, beyond = (
        estimated(videos, length=length).plan.activation_bytes for length in (2048, 16384, 131072, 262144)
    )
    assert short < longer < longest == beyond
    image = estimated(facts, length=131072).plan.activation_bytes
    assert estimated(videos, length=131072, limit_mm_per_prompt={"video": 0}).plan.activation_bytes == image
    assert video.steps(0) == video.steps(2048) == 1
    assert video.steps(131072) == 32


def test_outputs_of_layers_that_are_kept_take_memory() -> None:
    (encoder,) = facts_of("google/gemma-3-12b-it").encoders
    load = ProfileRun(8192, 1024, 1, 2, images=True)
    patches = 8192 // encoder.tokens * encoder.patches
    more = encoder_bytes(replace(encoder, kept=27), load) - encoder_bytes(encoder, load)
    assert more == 27 * patches * encoder.hidden * 2


def test_without_images_the_encoder_is_not_loaded() -> None:
    facts = facts_of("google/gemma-3-12b-it")
    text = estimated(facts, limit_mm_per_prompt={"image": 0, "video": 0})
    whole = estimated(facts)
    assert text.plan.weights_bytes < whole.plan.weights_bytes
    assert text.plan.activation_bytes < whole.plan.activation_bytes
    assert text.plan == estimated(facts, language_model_only=True).plan
    assert text.plan == estimated(facts, limit_mm_per_prompt='{"image": 0, "video": 0}').plan


@pytest.mark.parametrize(
    "args",
    [
        {"enable_lora": True, "max_loras": "many", "max_lora_rank": -1},
        {"cpu_offload_gb": "all"},
        {"speculative_config": "{"},
        {"speculative_config": [1], "limit_mm_per_prompt": 7},
        {"kv_cache_memory_bytes": True},
        {"mamba_ssm_cache_dtype": {}},
    ],
)
def test_values_that_vllm_would_refuse_do_not_stop_the_estimate(args: dict[str, Any]) -> None:
    assert estimated(dense(), **args).plan.kv_cache_bytes.typical > 0


def test_the_sampler_without_room_outside_the_budget_is_a_problem() -> None:
    """H100 at 0.95, 1,024 requests, 201k entries before 0.17: its warm-up ran out of memory."""
    wide = dense(vocab=201088)
    (problem,) = estimated(wide, version="0.11.0", utilization=0.95, seqs=1024).problems
    assert problem.code == "outside-budget"
    assert problem.suggestion.startswith("--gpu-memory-utilization 0.9")
    assert not estimated(wide, version="0.11.0", utilization=0.9, seqs=1024).problems
    assert not estimated(wide, version="0.19.0", utilization=0.95, seqs=1024).problems


def test_a_utilization_beyond_what_is_free_says_both() -> None:
    (problem,) = estimated(dense(), "V100-16GB", "0.29.0", utilization=0.92, tensor=8).problems
    assert problem.message == (
        "utilization 0.92 of V100-16GB is 14.5 GiB, more than the 13.7 GiB that are free when vLLM starts"
    )


def test_all_of_a_gpu_cannot_be_asked_for() -> None:
    (problem,) = estimated(dense(), utilization=1.0).problems
    assert problem.code == "utilization-too-high"


def test_weights_that_do_not_fit_leave_an_empty_cache() -> None:
    found = estimated(dense(layers=200))
    assert found.plan.kv_cache_bytes == Band(0, 0, 0)
    assert found.holds_one == (False, False, False)
    assert found.longest_context.high == 0


def test_formulas_add_up_to_the_cache() -> None:
    for version in ("0.19.0", "0.29.0"):
        found = estimated(dense(), version=version)
        value = {formula.name: formula.value for formula in found.formulas}
        counted = value["cuda graphs"] if version == "0.29.0" else 0.0
        left = value["requested"] - value["weights"] - value["activation"] - value["non-torch"] - counted
        assert value["KV cache"] == pytest.approx(left, abs=2)
        assert value["blocks"] == value["KV cache"] // value["block"]
        assert value["concurrency"] == pytest.approx(value["blocks"] * value["block"] / value["one request"])


def test_an_expert_mixture_keeps_its_workspace_since_0_13() -> None:
    gained = [estimated(moe(), version=version).plan.activation_bytes for version in ("0.12.0", "0.13.0")]
    assert gained[1] - gained[0] == 8192 * 8 * (2048 + 2048) * 2

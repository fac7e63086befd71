from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.gpus import find_gpu, load_gpus
from rayllm_ctl.model.kube.quantities import GIB, format_duration
from rayllm_ctl.model.plan.facts import ModelFacts, Quantization, Scheme, StateCache
from rayllm_ctl.model.plan.hardware import GPU, NodeShape
from rayllm_ctl.model.plan.plan import Cost, Plan, Suggestion
from rayllm_ctl.model.spec.service import (
    Engine,
    LLMService,
    Load,
    Model,
    Parallelism,
    PodResources,
    Replicas,
    Resources,
)
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.planner.memory import whole_weights
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.search import has_public_image
from tests.planner.facts import FP8_BLOCK, dense, moe
from tests.planner.gpus import H100, L4, T4
from tests.planner.known import facts_of

LLAMA_70B = dense(layers=80, hidden=8192, heads=64, kv_heads=8, intermediate=28672)
CATALOG = (T4, L4, H100)


def plan(
    facts: ModelFacts,
    *gpus: GPU,
    tp: int | None = None,
    pp: int | None = None,
    across_nodes: bool = False,
    load: Load | None = None,
    replicas: Replicas | None = None,
    version: str | None = None,
    explain: bool = False,
    checkpoint: int | None = None,
    memory: str | None = None,
    **settings: Any,
) -> Plan:
    service = LLMService(
        "test",
        Model("test/model"),
        engine=Engine(**settings),
        parallelism=Parallelism(tp, pp, across_nodes),
        load=load or Load(),
        replicas=replicas or Replicas(),
        resources=Resources(worker=PodResources(memory=memory)),
    )
    request = Request(
        service,
        facts,
        "test",
        engine(version),
        gpus or CATALOG,
        CATALOG,
        checkpoint_bytes=checkpoint,
        hand_sized=replicas is not None,
    )
    return decide(request, explain=explain)


def codes(found: Plan) -> list[str]:
    return [reason.code for reason in found.reasons]


def test_without_a_gpu_the_cheapest_that_fits_is_taken_and_the_cheaper_one_explained() -> None:
    found = plan(dense())
    assert found.verdict == "fits"
    assert found.gpu is not None
    assert found.parallelism is not None
    assert (found.gpu.name, found.parallelism.tensor) == ("L4", 2)
    assert codes(found)[0] == "chosen"
    assert "1 × L4 (TP 1) is insufficient" in found.reasons[-1].message


def test_a_model_of_one_stage_is_not_cut_into_two() -> None:
    whole = replace(dense(), single_stage=True)
    found = plan(whole, H100, pp=2)
    assert (found.verdict, codes(found)) == ("invalid", ["no-pipeline-parallelism"])
    assert "no-pipeline-parallelism" not in codes(plan(dense(), H100, pp=2))


def test_expert_parallelism_counts_where_tensor_parallelism_is_judged() -> None:
    """208 columns a rank hold no whole block, and experts that are not cut need none."""
    facts = moe(intermediate=1664, scheme=FP8_BLOCK)
    assert codes(plan(facts, H100, tp=8)) == ["tensor-parallel-quantization-block"]
    assert plan(facts, H100, tp=8, args={"enable_expert_parallel": True}).verdict == "fits"


def test_what_contradicts_itself_names_no_gpus_that_nobody_asked_for() -> None:
    named = plan(dense(), T4, dtype="bfloat16")
    assert (named.verdict, named.parallelism) == ("invalid", None)
    assert named.gpu is not None
    assert all("instead of" not in change.effect for change in named.suggestions)
    anywhere = plan(dense(), tp=3)
    assert (anywhere.verdict, anywhere.gpu, anywhere.parallelism) == ("invalid", None, None)
    asked = plan(dense(), H100, tp=3)
    assert asked.parallelism is not None
    assert asked.parallelism.tensor == 3
    assert any("instead of" in change.effect for change in asked.suggestions)


def test_a_price_that_was_not_asked_for_is_not_compared() -> None:
    priced = replace(T4, price_per_hour={"any": 0.5})
    open_layout, asked = (plan(LLAMA_70B, priced, tp=tp, max_model_len=131072) for tp in (None, 1))
    assert (open_layout.verdict, asked.verdict) == ("does-not-fit", "does-not-fit")
    assert any("USD/h" in change.effect for change in open_layout.suggestions)
    assert all("instead of" not in change.effect for change in open_layout.suggestions)
    assert any("instead of" in change.effect for change in asked.suggestions)


def test_gpus_without_a_price_are_not_the_best_cost() -> None:
    free = replace(L4, name="free", price_per_hour={})
    found = plan(dense(), free)
    assert found.reasons[0].message.startswith("2 × free (TP 2) has the fewest GPUs of")
    assert "no price of those that fit is known" in found.reasons[0].message
    mixed = plan(dense(), free, L4)
    assert "2 × L4 (TP 2) has the lowest known USD/h of" in mixed.reasons[0].message
    assert "has the lowest USD/h of" in plan(dense(), L4).reasons[0].message
    amd = replace(H100, name="MI300X", vendor="amd", compute_capability=None)
    foreign = plan(dense(), free, amd).reasons[0].message
    assert foreign.startswith("the price of 2 × free (TP 2) is unknown; of ")
    assert foreign.endswith(", those with a known price hold a shorter context, span nodes or need another image")


@pytest.mark.parametrize("facts", [dense(), LLAMA_70B, moe()], ids=["dense-8b", "dense-70b", "moe"])
@pytest.mark.parametrize("image", [None, "registry/vllm:1"])
def test_of_the_catalog_no_gpu_without_a_price_is_chosen_for_its_cost(facts: ModelFacts, image: str | None) -> None:
    every = tuple(load_gpus().values())
    found = plan(facts, *every, image=image, load=Load(concurrency=8), explain=True)
    fitting = [one for one in found.candidates if one.verdict == "fits" and one.pipeline == 1]
    assert any(one.price_per_hour is None for one in fitting)
    assert isinstance(found.cost, Cost)
    prices = [one.price_per_hour for one in fitting if image or has_public_image(find_gpu(one.gpu))]
    known = [price for price in prices if price is not None]
    assert prices[: len(known)] == sorted(known)


def per_token(found: Plan) -> list[Suggestion]:
    return [change for change in found.suggestions if "per million output tokens" in change.effect]


def test_what_costs_less_per_token_is_suggested_where_the_hour_decides() -> None:
    found = plan(dense(), L4, H100)
    (cheaper,) = per_token(found)
    assert cheaper.flags == "--gpu H100-80GB --tp 1"
    mine, other = found.cost, plan(dense(), H100, tp=1).cost
    assert isinstance(mine, Cost)
    assert isinstance(other, Cost)
    assert mine.per_million_output_tokens is not None
    assert other.per_million_output_tokens is not None
    prices = f"{other.per_million_output_tokens.typical:.2f} instead of {mine.per_million_output_tokens.typical:.2f}"
    assert cheaper.effect.startswith("fits, ")
    assert cheaper.effect.endswith(f" USD/h, {prices} USD per million output tokens")


def test_what_is_suggested_twice_is_one_line() -> None:
    """The other kind of GPU that fits also costs less per token."""
    found = plan(dense(), L4, H100, max_model_len=8192, load=Load(concurrency=1))
    assert [change.flags for change in found.suggestions] == ["--gpu H100-80GB --tp 1"]
    assert per_token(found) == list(found.suggestions)


def test_nothing_is_named_that_costs_more_per_token_or_has_no_price() -> None:
    def flags(*gpus: GPU, **how: Any) -> list[str]:
        return [change.flags for change in per_token(plan(dense(), *gpus, **how))]

    dear, free = replace(H100, price_per_hour={"any": 1000.0}), replace(H100, price_per_hour={})
    for other in (dear, free):
        assert flags(L4, other) == []
    assert flags(L4, tp=4) == flags(L4, dear, tp=4) == []
    assert flags(L4, H100, tp=4) == ["--gpu H100-80GB --tp 4"]
    assert flags(L4, H100, tp=4, load=Load(objective="latency")) == []


def test_what_is_explained_is_the_next_cheaper_and_the_next_smaller() -> None:
    """Not a GPU without released builds, nor many small ones, whatever their price."""
    old = replace(T4, name="old", compute_capability=(7, 0), shapes=H100.shapes[:1], price_per_hour={"any": 2.9})
    half = replace(H100, name="half", memory_bytes=H100.memory_bytes // 2, price_per_hour={"any": 2.0})
    many = replace(L4, name="many", memory_bytes=int(8 * GIB), price_per_hour={"any": 0.7})
    found = plan(LLAMA_70B, replace(H100, price_per_hour={"any": 3.0}), old, half, many, max_model_len=8192)
    assert codes(found) == ["chosen", "smaller-does-not", "smaller-does-not"]
    lines = [reason.message.partition(" is insufficient")[0] for reason in found.reasons[1:]]
    assert found.reasons[0].message.startswith("4 × H100-80GB (TP 4) ")
    assert lines == ["4 × half (TP 4)", "2 × H100-80GB (TP 2)"]


def test_stages_that_the_user_asked_for_are_no_reason_for_a_shorter_context() -> None:
    """A GPU that holds the whole context with two stages is better than a smaller one that holds a part of it."""
    small = replace(L4, name="small", memory_bytes=int(13 * GIB), price_per_hour={})
    found = plan(dense(), small, L4, pp=2)
    assert found.gpu is not None
    assert found.engine is not None
    assert (found.gpu.name, found.engine.max_model_len) == ("L4", 131072)
    alone = plan(dense(), replace(small, shapes=()), pp=2)
    assert alone.engine is not None
    assert alone.engine.max_model_len < 131072


def test_weights_that_are_quantized_while_loading_fit_in_16_bits_first_before_0_16() -> None:
    facts = dense(layers=80, hidden=5120, heads=40, intermediate=25600, max_model_len=8192)
    old = plan(facts, H100, tp=1, quantization="fp8", version="0.14.1")
    assert (old.verdict, codes(old)) == ("does-not-fit", ["loading-exceeds-memory"])
    assert plan(facts, H100, tp=1, quantization="fp8", version="0.15.1").verdict == "does-not-fit"
    assert plan(facts, H100, tp=1, quantization="fp8", version="0.12.0").verdict == "fits"
    assert plan(facts, H100, tp=1, quantization="fp8", version="0.16.0").verdict == "fits"
    assert plan(facts, L4, tp=1, quantization="fp8", version="0.12.0").verdict == "does-not-fit"


def test_files_that_hold_more_than_the_config_describes_count() -> None:
    """AWQ of 4 bits that leaves half of the layers in 16, as only the size of its files tells."""
    scheme = Scheme("awq", 4, group=128, scale_bytes=2, zero_points=True, weight_only=True)
    facts = replace(dense(scheme=scheme), quantization=Quantization("awq", "AWQ 4 bit", 4))
    described = whole_weights(facts, "bfloat16")
    whole, larger = (plan(facts, L4, tp=1, checkpoint=described + more) for more in (described // 50, described))
    assert whole.memory is not None
    assert larger.memory is not None
    assert whole.memory.parameter_bytes == described
    assert larger.memory.parameter_bytes == 2 * described
    assert not whole.notes
    assert "more than its config describes" in larger.notes[0].replace("\n", " ")
    halves = plan(facts, L4, tp=2, checkpoint=2 * described)
    assert halves.memory is not None
    assert halves.memory.parameter_bytes == pytest.approx(described, rel=0.01)
    plain = plan(dense(), H100, tp=1, checkpoint=40 * GIB)
    assert plain.memory is not None
    assert plain.memory.parameter_bytes == whole_weights(dense(), "bfloat16")


def test_a_gpu_with_more_memory_in_some_machines_is_a_risk_where_only_those_hold_the_model() -> None:
    shapes = (NodeShape("azure", "large", 1, 36, 440, 40 * GIB), NodeShape("oci", "usual", 1, 30, 240))
    varied = replace(L4, shapes=shapes)
    found = plan(dense(), varied, tp=1, max_model_len=131072)
    assert (found.verdict, codes(found)[0]) == ("risky", "gpu-memory-differs")
    assert found.reasons[0].suggestion == "--node-selector node.kubernetes.io/instance-type=large"
    assert plan(dense(), varied.on("large"), tp=1, max_model_len=131072).verdict == "fits"
    assert plan(dense(), varied.on("usual"), tp=1, max_model_len=131072).verdict == "does-not-fit"
    assert plan(dense(), varied, tp=1, max_model_len=8192).verdict == "fits"


def test_weights_whose_data_type_the_config_does_not_state_are_not_called_float32() -> None:
    unstated = replace(dense(), dtype="")
    found = plan(unstated, H100, tp=1)
    assert found.engine is not None
    assert (found.engine.dtype, found.notes) == ("bfloat16", ())
    (note,) = plan(replace(dense(), dtype="float32"), H100, tp=1).notes
    assert note.startswith("float32 weights are served in bfloat16")
    (older,) = (note for note in plan(unstated, T4, pp=2).notes if "float16" in note)
    assert older == "the model is served in float16: T4 does not support bfloat16"


def test_a_worker_without_memory_for_ray_and_an_engine_does_not_fit() -> None:
    found = plan(dense(), L4, tp=2, memory="1Gi")
    assert (found.verdict, codes(found)) == ("does-not-fit", ["worker-memory"])
    less = plan(dense(), L4, tp=2, memory="8Gi")
    assert less.verdict == "fits"
    assert any("memory of a worker is 8Gi, less than half of the" in note for note in less.notes)


def test_the_objective_changes_the_choice() -> None:
    cheap = plan(dense(), load=Load(objective="cost"))
    fast = plan(dense(), load=Load(objective="latency"))
    assert cheap.gpu is not None
    assert fast.gpu is not None
    assert fast.parallelism is not None
    assert cheap.gpu.name == "L4"
    assert (fast.gpu.name, fast.parallelism.tensor) == ("H100-80GB", 8)


def test_the_smallest_tensor_parallel_size_that_fits_is_taken() -> None:
    found = plan(LLAMA_70B, H100)
    assert found.verdict == "fits"
    assert found.parallelism is not None
    assert found.parallelism.tensor == 4
    assert found.engine is not None
    assert found.engine.max_model_len == 131072


def test_what_the_user_leaves_open_is_written_out() -> None:
    found = plan(dense(), H100, tp=1)
    assert found.engine is not None
    assert (found.engine.max_num_seqs, found.engine.max_num_batched_tokens) == (1024, 8192)
    assert found.engine.gpu_memory_utilization == 0.92
    small = plan(dense(), L4, tp=1)
    assert small.engine is not None
    assert (small.engine.max_num_seqs, small.engine.max_num_batched_tokens) == (256, 2048)


def test_a_step_is_no_larger_than_all_requests_together() -> None:
    found = plan(dense(), H100, tp=1, max_model_len=512, max_num_seqs=4)
    assert found.engine is not None
    assert found.engine.max_num_batched_tokens == 4 * 512


@pytest.mark.parametrize(("gpu", "sequences"), [(L4, 2049), (L4, 4096), (H100, 8193)])
def test_a_step_has_a_token_for_each_sequence(gpu: GPU, sequences: int) -> None:
    """vLLM's SchedulerConfig rejects a smaller one, and its own default does not grow."""
    found = plan(dense(), gpu, tp=1, max_num_seqs=sequences, max_model_len=1024)
    assert found.engine is not None
    assert (found.engine.max_num_seqs, found.engine.max_num_batched_tokens) == (sequences, sequences)
    assert any(f"max_num_batched_tokens is {sequences:,} instead of" in note for note in found.notes)


@pytest.mark.parametrize("facts", [dense(), LLAMA_70B], ids=["8B", "70B"])
def test_alternatives_are_other_kinds_that_fit(facts: ModelFacts) -> None:
    found = plan(facts)
    assert found.gpu is not None
    assert found.suggestions
    for suggestion in found.suggestions:
        words = suggestion.flags.split()
        flags = dict(zip(words[::2], words[1::2], strict=True))
        assert flags["--gpu"] != found.gpu.name or suggestion in per_token(found)
        gpu = next(gpu for gpu in CATALOG if gpu.name == flags["--gpu"])
        assert plan(facts, gpu, tp=int(flags["--tp"]), pp=int(flags.get("--pp", 1))).verdict == "fits"


def test_a_context_is_shortened_only_where_none_was_named() -> None:
    free = plan(dense(), L4, tp=1)
    assert free.verdict == "fits"
    assert free.engine is not None
    assert 8192 <= free.engine.max_model_len < 131072
    assert free.engine.max_model_len % 1024 == 0
    named = plan(dense(), L4, tp=1, max_model_len=131072)
    assert named.verdict == "does-not-fit"
    assert codes(named) == ["kv-cache-too-small"]
    assert named.memory is not None
    assert named.memory.kv_needed_bytes == 131072 * 32 * 2 * 8 * 128 * 2


def test_every_suggestion_works_when_it_is_taken() -> None:
    found = plan(dense(), L4, tp=1, max_model_len=131072)
    flags = [suggestion.flags for suggestion in found.suggestions]
    assert flags[0].startswith("--max-model-len ")
    assert found.reasons[0].suggestion == flags[0]
    shorter = int(flags[0].split()[1])
    assert plan(dense(), L4, tp=1, max_model_len=shorter).verdict == "fits"
    assert plan(dense(), L4, tp=1, max_model_len=2 * shorter).verdict != "fits"
    assert "--gpu L4" not in flags[-1]


def test_a_utilization_that_leaves_nothing_is_refused_with_one_that_does() -> None:
    found = plan(dense(), H100, tp=1, gpu_memory_utilization=0.1, max_model_len=8192)
    assert (found.verdict, codes(found)) == ("does-not-fit", ["weights-exceed-memory"])
    assert found.suggestions[0].flags == "--gpu-memory-utilization 0.92"


def test_weights_that_exceed_the_memory_say_so() -> None:
    found = plan(LLAMA_70B, H100, tp=1)
    assert (found.verdict, codes(found)) == ("does-not-fit", ["weights-exceed-memory"])
    assert any(suggestion.flags == "--tp 4" for suggestion in found.suggestions)


def test_tensor_parallelism_over_nodes_is_refused_with_what_works() -> None:
    found = plan(LLAMA_70B, H100, tp=16)
    assert (found.verdict, codes(found)) == ("invalid", ["tensor-parallel-across-nodes"])
    assert found.suggestions[0].flags == "--tp 8"
    assert found.memory is None


def test_tensor_parallelism_over_nodes_is_planned_by_the_user_s_word_and_slow() -> None:
    inside, across = plan(LLAMA_70B, H100, tp=8), plan(LLAMA_70B, H100, tp=16, across_nodes=True)
    assert across.verdict == "fits"
    assert across.pods is not None
    assert (across.pods.gpus_per_worker, across.pods.workers_per_replica) == (8, 2)
    assert any("TP 16 spans 2 nodes" in note for note in across.notes)
    assert inside.throughput is not None
    assert across.throughput is not None
    assert any("across nodes" in line for line in across.throughput.extrapolated)
    assert across.throughput.one_request.tpot.typical > inside.throughput.one_request.tpot.typical


def test_the_word_for_several_nodes_is_not_ignored_where_one_is_enough() -> None:
    found = plan(LLAMA_70B, H100, tp=4, across_nodes=True)
    assert (found.verdict, found.pods and found.pods.workers_per_replica) == ("fits", 1)
    assert any("--tp-across-nodes has no effect" in note for note in found.notes)


def test_over_nodes_too_tensor_parallelism_must_divide_the_heads() -> None:
    found = plan(LLAMA_70B, H100, tp=24, across_nodes=True)
    assert codes(found) == ["tensor-parallel-heads"]
    assert [suggestion.flags for suggestion in found.suggestions][:2] == ["--tp 16", "--tp 32"]


def test_pipeline_stages_come_when_no_node_holds_the_model() -> None:
    found = plan(dense(layers=126, hidden=16384, heads=128, kv_heads=8, intermediate=53248), H100)
    assert found.verdict == "fits"
    assert found.parallelism is not None
    assert found.parallelism.tensor == 8
    assert found.parallelism.pipeline >= 2
    assert found.pods is not None
    assert found.pods.workers_per_replica == found.parallelism.pipeline


@pytest.mark.parametrize(
    ("gpu", "settings", "code", "remedy"),
    [
        (H100, {"max_model_len": 200_000}, "context-above-model", "--max-model-len 131072"),
        (
            H100,
            {"args": {"enable_prefix_cachin": True}},
            "unknown-engine-argument",
            "--engine-arg enable_prefix_caching=True",
        ),
        (H100, {"quantization": "awq"}, "quantization-needs-checkpoint", "--quantization fp8"),
        (H100, {"args": {"enforce_eager": "no"}}, "engine-argument-value", ""),
        (H100, {"args": {"seed": "abc"}}, "engine-argument-value", ""),
        (H100, {"args": {"max_logprobs": "on"}}, "engine-argument-value", ""),
        (H100, {"args": {"cpu_offload_gb": "x"}}, "engine-argument-value", ""),
        (H100, {"args": {"seed": True}}, "engine-argument-value", ""),
        (H100, {"args": {"enable_prefix_caching": None}}, "engine-argument-value", ""),
        (H100, {"args": {"block_size": 0}}, "engine-argument-value", ""),
        (H100, {"args": {"enable_auto_tool_choice": True}}, "engine-argument-value", ""),
        (H100, {"args": {"enable_auto_tool_choice": 1, "tool_call_parser": "hermes"}}, "engine-argument-value", ""),
        (H100, {"quantization": "humming"}, "quantization-not-planned", "--quantization fp8"),
        (H100, {"quantization": "fp9"}, "quantization-unknown", "--quantization fp8"),
        (H100, {"quantization": "int3"}, "quantization-unknown", "--quantization fp8"),
        (H100, {"kv_cache_dtype": "fp8_e4m4"}, "kv-cache-dtype-unknown", "--kv-cache-dtype fp8_e4m3"),
        (
            H100,
            {"max_num_batched_tokens": 4096, "args": {"enable_chunked_prefill": False}},
            "step-below-context",
            "--max-model-len 4096",
        ),
        (T4, {"dtype": "bfloat16", "max_model_len": 4096}, "dtype-needs-newer-gpu", "--dtype float16 --tp 2"),
        (T4, {"quantization": "fp8"}, "quantization-needs-newer-gpu", ""),
        (T4, {"kv_cache_dtype": "fp8"}, "kv-cache-dtype-needs-newer-gpu", "--kv-cache-dtype auto"),
    ],
)
def test_contradictions_are_refused_with_a_remedy(gpu: GPU, settings: dict[str, Any], code: str, remedy: str) -> None:
    found = plan(dense(), gpu, **settings)
    assert found.verdict == "invalid"
    assert code in codes(found)
    if remedy and gpu is not T4:
        assert remedy in [suggestion.flags for suggestion in found.suggestions]


@pytest.mark.parametrize(
    ("load", "context", "message", "remedy"),
    [
        (Load(input_tokens=131072), None, "131,072 input tokens exceed the model's maximum context of 131,072",
         "--input-tokens 131071"),
        (Load(output_tokens=200_000), None, "200,000 output tokens exceed the model's maximum context of 131,072",
         "--output-tokens 131071"),
        (Load(input_tokens=131_000, output_tokens=100), None, "131,000 input and 100 output tokens exceed the model's",
         "--input-tokens 130972"),
        (Load(input_tokens=8000, output_tokens=1000), 8192, "8,000 input and 1,000 output tokens exceed a context of "
         "8,192", "--max-model-len 9000"),
        (Load(input_tokens=200_000), 8192, "200,000 input tokens exceed a context of 8,192",
         "--max-model-len 131072 --input-tokens 131071"),
        (Load(input_tokens=200_000, output_tokens=200_000), None, "200,000 input and 200,000 output tokens exceed", ""),
    ],
)  # fmt: skip
def test_a_load_longer_than_the_context_is_refused(load: Load, context: int | None, message: str, remedy: str) -> None:
    found = plan(dense(), H100, load=load, max_model_len=context)
    assert (found.verdict, codes(found)) == ("invalid", ["load-above-context"])
    assert message in found.reasons[0].message
    assert [suggestion.flags for suggestion in found.suggestions] == ([remedy] if remedy else [])


@pytest.mark.parametrize("load", [Load(input_tokens=131071), Load(input_tokens=130_000), Load(output_tokens=131071)])
def test_a_load_as_long_as_the_context_is_planned(load: Load) -> None:
    found = plan(dense(), H100, load=load)
    assert found.verdict == "fits"
    assert found.throughput is not None
    assert found.throughput.load.input_tokens + found.throughput.load.output_tokens <= 131072


def test_the_context_is_as_long_as_the_load() -> None:
    facts = replace(dense(), max_model_len=1_000_000)
    for tokens in (200_000, 900_000):
        found = plan(facts, H100, load=Load(input_tokens=tokens, output_tokens=1000))
        assert found.engine is not None
        assert found.engine.max_model_len >= tokens + 1000


def test_arguments_of_the_front_end_are_known() -> None:
    args = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes", "chat_template": None}
    assert plan(dense(), H100, args=args).verdict == "fits"


def test_a_quantized_checkpoint_cannot_be_quantized_otherwise() -> None:
    facts = replace(dense(scheme=FP8_BLOCK), quantization=Quantization("fp8", "fp8 in blocks of 128", 8))
    assert codes(plan(facts, H100, quantization="awq")) == ["quantization-contradicts-checkpoint"]
    assert plan(facts, H100, quantization="fp8").verdict == "fits"


def test_compressed_tensors_are_held_to_the_scheme_they_store() -> None:
    """vLLM 0.10 reads 4-bit compressed-tensors with kernels from 8.0 on, though it reads the format from 7.0 on."""
    stored = Scheme("compressed-tensors", 4, group=128, weight_only=True)
    packed = Quantization("compressed-tensors", "pack-quantized", 4)
    facts = replace(dense(scheme=stored, max_model_len=4096), dtype="float16", quantization=packed)
    assert "quantization-needs-newer-gpu" in codes(plan(facts, T4, version="0.10.0"))
    assert plan(facts, T4, version="0.19.0").verdict == "fits"


def test_architectures_are_known_by_version() -> None:
    gone = replace(dense(), architecture="MllamaForConditionalGeneration")
    found = plan(gone, H100)
    assert (found.verdict, codes(found)) == ("invalid", ["architecture-removed"])
    assert found.reasons[0].suggestion.startswith("--vllm-version 0.")
    nobody = replace(dense(), architecture="NobodyForCausalLM")
    unknown = plan(nobody, H100, args={"model_impl": "vllm"})
    assert codes(unknown) == ["architecture-unknown"]
    assert unknown.reasons[0].suggestion == ""
    assert codes(plan(nobody, H100, version="0.6.4")) == ["architecture-unknown"], "before the Transformers backend"
    later = Request(
        LLMService("test", Model("test/model")), replace(dense(), architecture="ApertusForCausalLM"), "test",
        engine("0.6.4"), (H100,), newest=engine(),
    )  # fmt: skip
    found = decide(later)
    assert (codes(found), found.reasons[0].suggestion) == (
        ["architecture-unknown"],
        f"--vllm-version {engine().version}",
    )


def test_a_model_that_fits_with_one_of_two_samplers_is_a_risk() -> None:
    """gpt-oss-120b on one H100 with vLLM 0.10.2 and 32,768 tokens was served (GPUStack's performance lab), as in
    vLLM's image, which has FlashInfer; where it is not installed, the sampler takes all that the weights leave."""
    found = plan(facts_of("openai/gpt-oss-120b"), H100, tp=1, version="0.10.2", max_model_len=32768)
    assert (found.verdict, codes(found)) == ("risky", ["sampler-unknown"])
    assert "takes 7.4 GiB instead of 1.9" in found.reasons[0].message
    sure = plan(facts_of("openai/gpt-oss-120b"), H100, tp=1, version="0.10.2", max_model_len=32768,
                env={"VLLM_USE_FLASHINFER_SAMPLER": "0"})  # fmt: skip
    assert (sure.verdict, codes(sure)) == ("does-not-fit", ["weights-exceed-memory"])


def test_memory_that_the_machine_uses_too_bounds_the_utilization() -> None:
    """GB10: of 121.69 GiB 101 to 102 are free at the start; recipes of vLLM state 0.85 and say that 0.92 fails."""
    spark = find_gpu("GB10")
    found = plan(dense(), spark, version="0.29.0")
    assert (found.verdict, codes(found)) == ("risky", ["outside-budget"])
    assert found.reasons[0].suggestion.startswith("--gpu-memory-utilization 0.8")
    assert plan(dense(), spark, version="0.29.0", gpu_memory_utilization=0.8).verdict == "fits"


def test_blackwell_needs_a_release_that_is_built_for_it() -> None:
    """vLLM 0.8.5 requires torch 2.6 (CUDA 12.4), 0.9 torch 2.7, the first with CUDA 12.8."""
    for name in ("B200-180GB", "RTX-5090"):
        old = plan(dense(), find_gpu(name), version="0.8.5", max_model_len=8192)
        assert (old.verdict, codes(old)[-1]) == ("risky", "gpu-not-in-builds")
        assert "gpu-not-in-builds" not in codes(plan(dense(), find_gpu(name), version="0.9.2", max_model_len=8192))


def test_gpus_that_the_builds_leave_out_are_a_risk() -> None:
    v100 = replace(T4, name="V100-32GB", memory_bytes=int(31.7 * 2**30), compute_capability=(7, 0))
    now, before = plan(dense(), v100, max_model_len=8192), plan(dense(), v100, max_model_len=8192, version="0.18.0")
    assert (now.verdict, codes(now)) == ("risky", ["gpu-not-in-builds"])
    assert before.verdict == "fits"


@pytest.mark.parametrize(
    ("gpu", "version", "stored", "served"),
    [
        (T4, "0.29.0", "bfloat16", "float32"),
        (T4, "0.8.5", "bfloat16", "float16"),
        (H100, "0.29.0", "bfloat16", "bfloat16"),
        (H100, "0.29.0", "float16", "bfloat16"),
        (H100, "0.29.0", "", "bfloat16"),
    ],
)
def test_models_that_are_not_served_in_float16(gpu: GPU, version: str, stored: str, served: str) -> None:
    """config/model.py _FLOAT16_NOT_SUPPORTED_MODELS and _resolve_auto_dtype, 0.9.2 to 0.33; not in 0.8.5."""
    small = replace(dense(layers=4, vocab=32000), model_type="gemma3_text", dtype=stored)
    found = plan(small, gpu, version=version, max_model_len=4096, tp=1)
    assert found.engine is not None
    assert found.engine.dtype == served
    assert any(f"served in {served}" in note for note in found.notes) is (stored not in (served, ""))
    refused = plan(small, gpu, version="0.29.0", max_model_len=4096, dtype="float16", tp=1)
    assert codes(refused) == ["dtype-not-supported"]


def test_a_model_in_32_bits_takes_twice_the_memory() -> None:
    layers = replace(dense(layers=4, vocab=32000), model_type="gemma2")
    plain = replace(layers, model_type="llama")
    sizes = [plan(one, T4, max_model_len=4096, tp=1).memory for one in (layers, plain)]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[0].parameter_bytes == 2 * sizes[1].parameter_bytes


def test_what_was_decided_for_the_user_is_noted() -> None:
    half = plan(dense(), T4, max_model_len=4096, tp=1, quantization="bitsandbytes", version="0.19.0")
    assert half.notes == ("bfloat16 weights are served in float16: T4 does not support bfloat16",)
    facts = replace(dense(scheme=FP8_BLOCK), quantization=Quantization("fp8", "fp8 in blocks of 128", 8))
    a100 = replace(H100, name="A100-80GB", compute_capability=(8, 0), flops={"bf16": 312e12, "fp16": 312e12})
    assert plan(facts, a100).notes == (
        "A100-80GB does not support fp8 arithmetic: weights stay in 8 bits, computation is 16-bit",
    )


def test_gpus_that_need_another_image_come_last_unless_one_is_given() -> None:
    amd = replace(H100, name="MI300X", vendor="amd", compute_capability=None, price_per_hour={"azure": 0.1})
    chosen = plan(dense(), H100, amd)
    assert chosen.gpu is not None
    assert chosen.gpu.name == "H100-80GB"
    own = plan(dense(), H100, amd, image="registry/vllm-rocm:1")
    assert own.gpu is not None
    assert own.gpu.name == "MI300X"
    assert "--image" in plan(dense(), amd).notes[0]
    arm = replace(H100, name="GH200-96GB", host_architecture="arm64", price_per_hour={"lambda": 0.1})
    beside_x86, beside_arm = plan(dense(), H100, arm), plan(dense(), H100, arm, image="registry/vllm:1")
    assert [one.gpu.name for one in (beside_x86, beside_arm) if one.gpu] == ["H100-80GB", "GH200-96GB"]


def test_concurrency_is_met_with_replicas_or_refused_where_they_are_fixed() -> None:
    load = Load(concurrency=2000, input_tokens=2000, output_tokens=500)
    sized = plan(dense(), H100, tp=1, load=load)
    assert sized.verdict == "fits"
    assert sized.parallelism is not None
    assert sized.parallelism.replicas > 5
    fixed = plan(dense(), H100, tp=1, load=load, replicas=Replicas(1, 1))
    assert (fixed.verdict, codes(fixed)) == ("does-not-fit", ["too-few-replicas"])
    assert fixed.reasons[0].suggestion == f"--replicas {sized.parallelism.replicas}"
    enough = Replicas(1, sized.parallelism.replicas)
    assert plan(dense(), H100, tp=1, load=load, replicas=enough).verdict == "fits"


def test_limits_on_latency_are_kept_or_refused() -> None:
    found = plan(dense(), H100, tp=1, load=Load(tpot=0.02))
    assert found.verdict == "fits"
    assert found.throughput is not None
    assert found.throughput.at_load.tpot.high <= 0.02
    slow = plan(dense(), L4, tp=1, max_model_len=8192, load=Load(tpot=0.02))
    assert (slow.verdict, codes(slow)[0]) == ("does-not-fit", "latency-not-reached")


@pytest.mark.parametrize("version", ["0.11.0", "0.21.0", "0.29.0", "0.32.0"])
def test_a_stage_without_attention_is_planned(version: str) -> None:
    whole = dense(layers=4)
    bare = replace(whole.layers[0], caches=())
    state = replace(whole.layers[0], caches=(StateCache("mamba2", (4096, 3), (64, 64, 128)),))
    found = plan(replace(whole, layers=(whole.layers[0], state, bare, bare)), H100, tp=1, pp=2, version=version)
    assert found.verdict == "fits"


def test_a_larger_tp_than_needed_is_told() -> None:
    found = plan(dense(), H100, tp=8)
    assert found.verdict == "fits"
    assert found.suggestions[0].flags == "--tp 1"


def test_explaining_shows_candidates_and_formulas() -> None:
    brief, full = plan(dense()), plan(dense(), explain=True)
    assert (brief.candidates, brief.formulas) == ((), ())
    assert {row.gpu for row in full.candidates} == {"T4", "L4", "H100-80GB"}
    assert all(row.line for row in full.candidates)
    assert any(line.startswith("requested") for line in full.formulas)


def test_json_has_the_published_fields_and_whole_bytes() -> None:
    data = json.loads(json.dumps(to_json(plan(moe(), H100))))
    assert data["verdict"] == "fits"
    assert data["parallelism"] == {"tensor": 1, "pipeline": 1, "replicas": 1, "maxReplicas": 1, "gpusPerReplica": 1}
    memory = data["memory"]
    for name in (
        "totalBytes", "requestedBytes", "parameterBytes", "weightsBytes", "activationBytes", "nonTorchBytes",
        "cudaGraphBytes",
    ):  # fmt: skip
        assert isinstance(memory[name], int), name
    for name in ("kvCacheBytes", "kvCacheTokens", "maxConcurrency"):
        assert memory[name]["low"] <= memory[name]["typical"] <= memory[name]["high"]
    assert all(isinstance(memory["kvCacheBytes"][end], int) for end in ("low", "typical", "high"))
    assert {"startup", "throughput", "cost", "reasons"} <= data.keys()


@given(length=st.integers(16, 131072), tensor=st.sampled_from([1, 2, 4, 8]))
def test_a_longer_context_never_fits_better(length: int, tensor: int) -> None:
    order = ["fits", "risky", "does-not-fit", "invalid"]
    longer = plan(dense(), L4, tp=tensor, max_model_len=length)
    shorter = plan(dense(), L4, tp=tensor, max_model_len=max(16, length // 2))
    assert order.index(shorter.verdict) <= order.index(longer.verdict)


@given(utilization=st.floats(0.3, 0.9), more=st.floats(0.01, 0.1))
def test_more_memory_holds_no_fewer_requests(utilization: float, more: float) -> None:
    less = plan(dense(), H100, tp=1, max_model_len=8192, gpu_memory_utilization=utilization)
    most = plan(dense(), H100, tp=1, max_model_len=8192, gpu_memory_utilization=utilization + more)
    assert less.memory is not None
    assert most.memory is not None
    assert less.memory.max_concurrency.typical <= most.memory.max_concurrency.typical


def test_weights_that_a_token_passes_several_times_are_held_once() -> None:
    """Eight times through 16 GB: one H100 still holds them, whichever GPUs are looked at beside it."""
    looped = dense()
    looped = replace(looped, layers=(replace(looped.layers[0], passes=8),) * looped.layer_count)
    found = plan(looped, T4, H100, max_model_len=8192)
    assert found.gpu is not None
    assert found.parallelism is not None
    assert (found.verdict, found.gpu.name, found.parallelism.tensor) == ("fits", "H100-80GB", 1)


def test_weights_in_host_memory_do_not_rule_a_gpu_out() -> None:
    large = replace(H100, name="large", memory_bytes=400 * 2**30, price_per_hour={"any": 99.0})
    found = plan(LLAMA_70B, large, H100, tp=1, max_model_len=8192, args={"cpu_offload_gb": 100})
    assert (found.verdict, found.gpu and found.gpu.name) == ("fits", "H100-80GB")


HYBRID = facts_of("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")


def hybrid(version: str = "0.26.0", **settings: Any) -> Plan:
    return plan(HYBRID, H100, tp=1, version=version, max_model_len=8192, **settings)


@pytest.mark.parametrize(
    ("version", "settings", "sequences"),
    [
        ("0.26.0", {}, 512),
        ("0.26.0", {"gpu_memory_utilization": 0.8}, 128),
        ("0.26.0", {"args": {"enforce_eager": True}}, 1024),
        ("0.19.0", {}, 1024),
    ],
)
def test_a_hybrid_runs_as_many_sequences_as_its_states_have_blocks(
    version: str, settings: dict[str, Any], sequences: int
) -> None:
    """With vLLM's default of 1,024 the model does not start on an H100: 888 blocks."""
    found = hybrid(version, **settings)
    assert found.engine is not None
    assert (found.verdict, found.engine.max_num_seqs) == ("fits", sequences)
    noted = f"max_num_seqs is {sequences} instead of 1,024"
    assert any(note.startswith(noted) for note in found.notes) is (sequences < 1024)


@pytest.mark.parametrize(
    ("sequences", "verdict", "code"),
    [
        (1024, "does-not-fit", "sequences-exceed-blocks"),
        (860, "risky", "sequences-uncertain"),
        (700, "fits", None),
    ],
)
def test_more_sequences_than_blocks_of_state_are_not_changed_but_judged(
    sequences: int, verdict: str, code: str | None
) -> None:
    found = hybrid(max_num_seqs=sequences)
    assert found.engine is not None
    assert (found.verdict, found.engine.max_num_seqs) == (verdict, sequences)
    if code:
        assert [(reason.code, reason.suggestion) for reason in found.reasons] == [(code, "--max-num-seqs 512")]
        assert found.suggestions[0].flags == "--max-num-seqs 512"


def test_sequences_of_a_hybrid_without_kv_cache_stay_at_the_default() -> None:
    found = hybrid(gpu_memory_utilization=0.5)
    assert found.engine is not None
    assert (codes(found), found.engine.max_num_seqs) == (["weights-exceed-memory"], 1024)


def test_more_requests_than_a_replica_holds_wait() -> None:
    """By Little's law: those that are not in flight, over the rate."""
    found = plan(dense(), H100, tp=1, load=Load(concurrency=500), replicas=Replicas(1, 1))
    assert found.throughput is not None
    rate, held = found.throughput.at_load.requests_per_second.typical, found.throughput.load.concurrency
    (reason,) = [reason for reason in found.reasons if reason.code == "too-few-replicas"]
    assert reason.message.endswith(f"a request waits about {format_duration((500 - held) / rate)}")

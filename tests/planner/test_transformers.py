"""The Transformers engine: where device_map puts layers, what a GPU holds, and what is chosen or rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts, Quantization
from rayllm_ctl.model.plan.hardware import GPU, NodeShape
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.transformers import TransformersPlan
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Load, Model, PodResources, Resources
from rayllm_ctl.model.spec.transformers import TransformersOptions
from rayllm_ctl.planner.deployment.deployment import with_deployment
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.transformers.activations import transformers_layer_bytes
from rayllm_ctl.planner.transformers.cpu import plan_transformers_cpu, plan_unseen_cpu
from rayllm_ctl.planner.transformers.devicemap import DeviceLimits, device_map
from rayllm_ctl.planner.transformers.gpu import plan_transformers
from rayllm_ctl.planner.transformers.memory import transformers_context_bytes
from rayllm_ctl.planner.transformers.parts import Loading, parts_of
from tests.planner.facts import dense, moe
from tests.planner.gpus import H100, L4
from tests.planner.known import facts_of

SMALL = GPU(
    name="small",
    vendor="nvidia",
    memory_bytes=int(10.57 * GIB),
    bandwidth=0.62e12,
    flops={"fp16": 54e12},
    architecture="Turing",
    compute_capability=(7, 5),
    shapes=(NodeShape("on-premises", "x", 8, 64, 256),),
)
QWEN_8B = dense(layers=36, kv_heads=8, intermediate=12288, vocab=151936, max_model_len=40960)
LLAMA_1B = replace(dense(layers=16, hidden=2048, head_dim=64, intermediate=8192), tied_embeddings=True)
EXPERTS = replace(moe(), layers=moe().layers[:12])


def service(options: TransformersOptions | None = None, kind: Any = "gpu", **settings: Any) -> LLMService:
    return LLMService(
        "test",
        Model("test/model"),
        engine=Engine(kind="transformers", transformers=options, **settings),
        accelerator=Accelerator(kind),
    )


def request(facts: ModelFacts, asked: LLMService, *gpus: GPU) -> Request:
    return Request(asked, facts, "test", engine(None), gpus, gpus)


def plan(
    facts: ModelFacts, *gpus: GPU, options: TransformersOptions | None = None, **settings: Any
) -> tuple[Plan, TransformersPlan]:
    found = plan_transformers(request(facts, service(options, **settings), *gpus), explain=True)
    assert found.transformers is not None
    return found, found.transformers


@pytest.mark.parametrize(
    ("facts", "gpus", "each", "cpu", "expected"),
    [
        (QWEN_8B, 1, 24, 0, {"0": 15622}),
        (QWEN_8B, 1, 8, 0, None),
        (QWEN_8B, 1, 8, 20, {"0": 6707, "cpu": 8915}),
        (QWEN_8B, 2, 10, 0, {"0": 7811, "1": 7811}),
        (QWEN_8B, 4, 5, 20, {"0": 3763, "1": 4784, "2": 4784, "3": 2291}),
        (LLAMA_1B, 2, 2, 0, {"0": 1661, "1": 696}),
        (LLAMA_1B, 1, 2, 20, {"0": 1893, "cpu": 464}),
        (EXPERTS, 2, 8, 0, None),
        (EXPERTS, 4, 5, 0, {"0": 2970, "1": 4754, "2": 4754, "3": 2970}),
    ],
)
def test_layers_lie_where_transformers_puts_them(
    facts: ModelFacts, gpus: int, each: int, cpu: int, expected: dict[str, int] | None
) -> None:
    """MiB on each device, as transformers 5.23 and accelerate 1.15 put models of these sizes (meta device)."""
    parts = parts_of(facts, Loading("bfloat16", None, 1024))
    places = device_map(parts, DeviceLimits(gpus, each * GIB, cpu * GIB))
    if expected is None:
        assert places is None
        return
    assert places is not None
    sizes: dict[str, int] = {}
    for part, place in zip(parts, places, strict=True):
        name = "cpu" if place == gpus else str(place)
        sizes[name] = sizes.get(name, 0) + part.weights
    # Norms and routers are not among these facts.
    assert {name: size / 2**20 for name, size in sizes.items()} == pytest.approx(expected, abs=8)


@pytest.mark.parametrize(
    "name", ["EleutherAI/gpt-j-6b", "google/gemma-3-27b-it", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V2-Lite"]
)
def test_parts_hold_every_parameter(name: str) -> None:
    facts = facts_of(name)
    held = sum(part.weights for part in parts_of(facts, Loading("bfloat16", None, 1)))
    assert held == pytest.approx(2 * facts.parameters, rel=0.005)
    assert sum(part.layers for part in parts_of(facts, Loading("bfloat16", None, 1))) == facts.layer_count


@pytest.mark.parametrize(
    ("facts", "measured"),
    [(QWEN_8B, 836), (dense(hidden=8192, heads=64, intermediate=28672), 1860), (moe(intermediate=768), 1160)],
)
def test_activations_are_those_of_transformers(facts: ModelFacts, measured: int) -> None:
    """MiB of the tensors that live at the peak with a prompt of 8,192 tokens, cache aside (meta device, no mask)."""
    assert transformers_layer_bytes(facts, Loading("bfloat16", None, 8192)) / 2**20 - 32 == pytest.approx(
        measured, rel=0.03
    )


def test_a_model_of_16_gb_runs_on_two_gpus_of_11() -> None:
    found, settings = plan(QWEN_8B, SMALL, dtype="float16")
    assert (found.verdict, settings.gpus, settings.dtype) == ("fits", 2, "float16")
    assert [one.layers for one in settings.devices] == [18, 18]
    assert settings.weights_bytes > SMALL.memory_bytes
    assert all(one.needed_bytes + one.margin_bytes <= one.total_bytes for one in settings.devices)
    assert settings.max_memory == {}
    assert {"smaller-does-not", "fewer-requests"} <= {reason.code for reason in found.reasons}
    assert 1 <= settings.max_num_seqs < 8
    more, _ = plan(QWEN_8B, SMALL, dtype="float16", max_num_seqs=settings.max_num_seqs + 1)
    assert more.gpu is not None
    assert more.parallelism is not None
    assert more.parallelism.gpus_per_replica == 4


def test_what_does_not_fit_says_by_how_much_and_what_does() -> None:
    found, _ = plan(QWEN_8B, SMALL, options=TransformersOptions(gpus=1))
    assert (found.verdict, found.reasons[0].code) == ("does-not-fit", "weights-exceed-memory")
    assert "by 5." in found.reasons[0].message
    flags = [change.flags for change in found.suggestions]
    assert flags[0] == "spec.engine.transformers.gpus: 2"
    assert "--quantization bitsandbytes-4bit" in flags
    offload = next(flag for flag in flags if "cpuMemory" in flag).rpartition(" ")[2]
    again, settings = plan(QWEN_8B, SMALL, options=TransformersOptions(gpus=1, cpu_memory=offload))
    assert again.verdict == "fits"
    assert settings.devices[-1].device == "cpu"


def test_layers_in_cpu_memory_are_held_by_the_pod_and_leave_the_gpu_its_cache() -> None:
    options = TransformersOptions(gpus=1, cpu_memory="20Gi")
    found, settings = plan(QWEN_8B, L4, options=options, max_model_len=16384, max_num_seqs=4)
    gpu, cpu = settings.devices
    assert gpu.layers + cpu.layers == 36
    # The caches of all layers, and room for one layer, are on the GPU.
    assert gpu.kv_cache_bytes == 37 * 4 * 16384 * 2 * 8 * 128 * 2
    assert gpu.reserved_bytes > 0
    assert settings.max_memory["cpu"] == "20GiB"
    assert int(settings.max_memory["0"].removesuffix("MiB")) * 2**20 < gpu.total_bytes - gpu.kv_cache_bytes
    assert any("slow" in note for note in found.notes)
    small = service(options, max_model_len=16384, max_num_seqs=4)
    small = replace(small, resources=Resources(worker=PodResources(memory="12Gi")))
    refused = plan_transformers(request(QWEN_8B, small, L4))
    assert (refused.verdict, refused.reasons[0].code) == ("does-not-fit", "worker-memory")
    unneeded, settings = plan(QWEN_8B, H100, options=options)
    assert [one.device for one in settings.devices] == ["0"]
    assert any("not needed" in note for note in unneeded.notes)


@pytest.mark.parametrize(("method", "bytes_per_weight"), [("bitsandbytes-8bit", 1.0), ("bitsandbytes-4bit", 0.5625)])
def test_bitsandbytes_quantizes_linear_layers_only(method: str, bytes_per_weight: float) -> None:
    first, *layers, head = parts_of(QWEN_8B, Loading("float16", method, 1024))
    table = 151936 * 4096 * 2
    assert (first.weights, head.weights) == (table, table)
    assert layers[0].weights == pytest.approx(QWEN_8B.layers[0].parameters * bytes_per_weight, rel=0.002)
    routed = parts_of(EXPERTS, Loading("float16", method, 1024))[1].weights
    assert routed > EXPERTS.layers[0].experts[0].parameters * 2
    assert any("routed experts" in note for note in plan(EXPERTS, L4, quantization=method)[0].notes)


@pytest.mark.parametrize(
    ("dtype", "method", "measured"),
    [("bfloat16", None, 15.256), ("float16", "bitsandbytes-8bit", 8.793), ("float16", "bitsandbytes-4bit", 5.973)],
)
def test_weights_are_those_that_an_h100_held(dtype: str, method: str | None, measured: float) -> None:
    """GiB that PyTorch had allocated after the engine's own loading code (transformers 5.23, bitsandbytes 0.50.2)."""
    parts = parts_of(facts_of("Qwen/Qwen3-8B"), Loading(dtype, method, 1))
    assert sum(part.weights for part in parts) / GIB == pytest.approx(measured, rel=0.003)


def test_a_plan_keeps_what_the_engine_was_measured_to_need() -> None:
    """Three requests of 8,192 tokens with PyTorch limited: 20.33 GiB sufficed and 20.25 did not. That was with one more
    request's cache (1.125) while batches were joined, which the engine holds no more."""
    found, settings = plan(facts_of("Qwen/Qwen3-8B"), L4, max_model_len=8192, max_num_seqs=3)
    one = settings.devices[0]
    kept = (one.needed_bytes + one.margin_bytes - one.context_bytes) / GIB
    assert found.verdict == "fits"
    assert 20.33 < kept < 1.1 * (20.33 - 1.125)


def test_cuda_takes_what_was_measured_on_an_h100() -> None:
    """Beside PyTorch's memory after the engine had run, and the workspaces of cuBLAS in it; GiB."""
    assert transformers_context_bytes(H100) / GIB == pytest.approx(0.751 + 0.062, rel=0.03)


def test_layers_beside_a_gpu_of_11_gb_lie_where_they_were_seen() -> None:
    """Five layers and 2.957 GiB on the GPU, 31 layers in CPU memory (max_memory {0: 4582MiB, cpu: 30GiB})."""
    parts = parts_of(facts_of("Qwen/Qwen3-8B"), Loading("float16", None, 4096))
    places = device_map(parts, DeviceLimits(1, 4582 * 2**20, 30 * GIB))
    assert places is not None
    here = [part for part, place in zip(parts, places, strict=True) if place == 0]
    assert sum(part.layers for part in here) == 5
    assert sum(part.weights for part in here) / GIB == pytest.approx(2.957, rel=0.002)


@pytest.mark.parametrize(
    ("facts", "options", "settings", "code"),
    [
        (QWEN_8B, None, {"max_model_len": 50000}, "context-above-model"),
        (QWEN_8B, None, {"dtype": "bfloat16"}, "dtype-needs-newer-gpu"),
        (
            replace(QWEN_8B, quantization=Quantization("awq", "awq", 4)),
            None,
            {"quantization": "bitsandbytes-8bit"},
            "quantization-contradicts-checkpoint",
        ),
    ],
)
def test_contradictions_are_rejected(
    facts: ModelFacts, options: TransformersOptions | None, settings: dict[str, Any], code: str
) -> None:
    found = plan_transformers(request(facts, service(options, **settings), SMALL))
    assert (found.verdict, [reason.code for reason in found.reasons]) == ("invalid", [code])
    assert found.reasons[0].suggestion


def test_more_gpus_than_a_node_has_are_rejected_and_a_quantized_checkpoint_is_risky() -> None:
    one = replace(SMALL, shapes=(NodeShape("on-premises", "x", 2, 8, 64),))
    found = plan_transformers(request(QWEN_8B, service(TransformersOptions(gpus=4)), one))
    assert (found.verdict, found.reasons[0].suggestion) == ("invalid", "spec.engine.transformers.gpus: 2")
    awq = replace(QWEN_8B, quantization=Quantization("awq", "awq", 4))
    risky, _ = plan(awq, H100)
    assert (risky.verdict, risky.reasons[0].code) == ("risky", "checkpoint-quantization")


def test_an_unknown_architecture_gets_more_room_and_says_so() -> None:
    assumed = ("the architecture NewForCausalLM is not known here",)
    unknown = replace(QWEN_8B, architecture="NewForCausalLM", traits=frozenset({"generic"}), assumed=assumed)
    (_, known), (found, settings) = plan(QWEN_8B, H100), plan(unknown, H100)
    assert settings.devices[0].margin_bytes == pytest.approx(2 * known.devices[0].margin_bytes, abs=2)
    assert settings.devices[0].activation_bytes > known.devices[0].activation_bytes
    assert any("NewForCausalLM is not known here" in note for note in found.notes)


def test_on_cpus_the_pod_is_sized_and_offers_ray_one_replica() -> None:
    asked = replace(service(kind="cpu", max_model_len=2048), resources=Resources(worker=PodResources(cpu="4")))
    found = plan_transformers_cpu(request(LLAMA_1B, asked))
    assert (found.verdict, found.gpu) == ("fits", None)
    assert found.transformers is not None
    assert (found.transformers.gpus, found.transformers.cpus) == (0, 4)
    deployment = with_deployment(found, asked, resolve_release(asked.engine)).deployment
    assert deployment is not None
    assert deployment.worker.cpus == 4
    tight = replace(asked, resources=Resources(worker=PodResources(memory="2Gi")))
    refused = plan_transformers_cpu(request(LLAMA_1B, tight))
    assert (refused.verdict, refused.reasons[0].code) == ("does-not-fit", "worker-memory")
    memory = refused.reasons[0].suggestion.removeprefix("--memory ")
    works = replace(asked, resources=Resources(worker=PodResources(memory=memory)))
    assert plan_transformers_cpu(request(LLAMA_1B, works)).verdict == "fits"
    unseen = plan_unseen_cpu(asked, "unknown")
    assert (unseen.verdict, unseen.proven) == ("risky", False)


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_a_load_above_the_context_is_refused(kind: str) -> None:
    planned = {"gpu": plan_transformers, "cpu": plan_transformers_cpu}[kind]

    def reasons(load: Load, context: int | None) -> list[tuple[str, str]]:
        asked = replace(service(kind=kind, max_model_len=context), load=load)
        return [(one.code, one.suggestion) for one in planned(request(QWEN_8B, asked, H100)).reasons]

    code = "load-above-context"
    assert reasons(Load(input_tokens=5000, output_tokens=500), 4096) == [(code, "--max-model-len 5500")]
    assert reasons(Load(input_tokens=50_000, output_tokens=960), None) == [(code, "--input-tokens 40000")]


def test_a_context_that_nobody_states_holds_the_load() -> None:
    load = Load(input_tokens=5000, output_tokens=500)
    on_gpus = plan_transformers(request(QWEN_8B, replace(service(), load=load), H100)).transformers
    on_cpus = plan_transformers_cpu(request(LLAMA_1B, replace(service(kind="cpu"), load=load))).transformers
    unseen = plan_unseen_cpu(replace(service(kind="cpu"), load=load), "unknown").transformers
    assert [one and one.max_model_len for one in (on_gpus, on_cpus, unseen)] == [5500] * 3


def test_an_image_without_accelerate_is_not_taken_and_a_public_one_rejected() -> None:
    found, _ = plan(QWEN_8B, L4)
    none = with_deployment(found, service(), resolve_release(Engine())).deployment
    assert none is not None
    assert none.runtime.image is None
    assert "lacks accelerate" in none.runtime.image_note
    named = Engine(kind="transformers", image="rayproject/ray-llm:2.60.0-py312-cu130", quantization="bitsandbytes-8bit")
    asked = replace(service(), engine=named)
    refused = with_deployment(found, asked, resolve_release(named))
    assert (refused.verdict, refused.reasons[0].code) == ("invalid", "image-lacks-packages")
    assert "packages accelerate and bitsandbytes" in refused.reasons[0].message
    own = replace(asked, engine=replace(named, image="registry.example/own:1"))
    accepted = with_deployment(found, own, resolve_release(own.engine))
    assert accepted.verdict == "fits"
    assert any("must contain accelerate and bitsandbytes" in note for note in accepted.notes)

"""The plan of a model on the Transformers engine on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.model.kube.quantities import GIB, gib, parse_quantity
from rayllm_ctl.model.plan.plan import GPUChoice, ParallelismPlan, Plan, PodSizes, Reason
from rayllm_ctl.model.plan.transformers import DevicePlan, TransformersPlan
from rayllm_ctl.model.spec.service import LLMService, Load
from rayllm_ctl.planner.deployment.pods import most_memory_gib, transformers_pods
from rayllm_ctl.planner.engine.context import context_reasons, ignored_load
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.speed.cost import cost
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import origin_of
from rayllm_ctl.planner.speed.startup import startup
from rayllm_ctl.planner.speed.ways import compare_ways
from rayllm_ctl.planner.transformers.activations import UNKNOWN
from rayllm_ctl.planner.transformers.layouts import DeviceLayout, options_of
from rayllm_ctl.planner.transformers.memory import MIB
from rayllm_ctl.planner.transformers.parts import Loading, parts_of
from rayllm_ctl.planner.transformers.search import (
    ranked,
    transformers_alternatives,
    transformers_summaries,
    why_transformers,
    with_cpu_memory,
)

_NO_SPEED = "speed with Transformers is not planned"


def plan_transformers(request: Request, *, explain: bool = False) -> Plan:
    """The plan; engine and catalog of the request are those of vLLM and the GPUs. explain: with every candidate."""
    service = request.service
    refused = tuple(contradictions(request))
    if refused:
        return Plan("invalid", service.model.id, request.source, refused, notes=request.notes)
    found = ranked(request)
    chosen = found[0]
    plan = Plan(
        verdict=chosen.verdict,
        model=service.model.id,
        facts_source=request.source,
        reasons=(*chosen.reasons, *(why_transformers(request, found) if chosen.verdict == "fits" else ())),
        candidates=transformers_summaries(found) if explain else (),
        notes=(*request.notes, *gpu_notes(request)),
        warnings=load_warnings(service.load),
    )
    if chosen.verdict == "does-not-fit" or (chosen.verdict == "risky" and not _caveat_alone(chosen)):
        offloaded = with_cpu_memory(request, chosen)
        plan = replace(
            plan, suggestions=(*transformers_alternatives(request, chosen), *((offloaded,) if offloaded else ()))
        )
    return _filled(plan, request, chosen)


def _caveat_alone(chosen: DeviceLayout) -> bool:
    """Whether memory suffices, and something else makes the layout risky."""
    return chosen.spread is not None and chosen.spread.fits


def contradictions(request: Request) -> Iterator[Reason]:
    """What contradicts the model whatever it runs on."""
    wanted, facts = request.service.engine, request.facts
    yield from context_reasons(request.service, facts.max_model_len)
    own = facts.quantization
    if own is not None and wanted.quantization is not None:
        message = f"the checkpoint is quantized with {own.method} and cannot be quantized with {wanted.quantization}"
        yield Reason("quantization-contradicts-checkpoint", message, "without --quantization")


def gpu_notes(request: Request) -> Iterator[str]:
    """What the plan cannot know."""
    facts, service = request.facts, request.service
    if UNKNOWN in facts.traits:
        yield (
            f"{'; '.join(facts.assumed)}; twice the usual activations and margin are kept free; whether Transformers "
            f"has {facts.architecture}, or needs trustRemoteCode, is not checked"
        )
    if options_of(service).trust_remote_code:
        yield "what the code of the model's repository keeps in memory beside weights and cache is not known"
    if facts.moe and service.engine.quantization is not None:
        method = service.engine.quantization
        yield f"{method} leaves routed experts as they are: Transformers has them in no linear layer"
    yield from speed_notes(service.load)


def speed_notes(load: Load) -> tuple[str, ...]:
    """The note that no speed is planned, unless `load_warnings` states it."""
    return () if ignored_load(load) else (_NO_SPEED,)


def load_warnings(load: Load) -> tuple[str, ...]:
    """Which part of a load counts, if there is one: no speed is planned."""
    ignored = ignored_load(load)
    return (f"{_NO_SPEED}; {ignored}",) if ignored else ()


def transformers_plan(
    request: Request, layout: DeviceLayout, max_memory: dict[str, str], devices: tuple[DevicePlan, ...]
) -> TransformersPlan:
    """What the engine is told."""
    parts = parts_of(request.facts, layout.loading)
    return TransformersPlan(
        dtype=layout.loading.dtype,
        max_model_len=layout.loading.context,
        max_num_seqs=layout.batch,
        gpus=layout.gpus,
        cpus=1,
        max_memory=max_memory,
        quantization=layout.loading.quantization,
        trust_remote_code=options_of(request.service).trust_remote_code,
        weights_bytes=sum(part.weights for part in parts),
        kv_request_bytes=sum(part.cache for part in parts),
        devices=devices,
    )


def checkpoint_bytes(request: Request) -> int:
    """Bytes of the weights as they are stored."""
    return sum(part.weights for part in parts_of(request.facts, Loading(request.facts.dtype or "bfloat16", None, 1)))


def _filled(plan: Plan, request: Request, chosen: DeviceLayout) -> Plan:
    """`plan` with the sections that the layout can fill."""
    gpu, replicas = chosen.gpu, request.service.replicas
    parallelism = ParallelismPlan(1, chosen.gpus, replicas.min, replicas.max)
    choice = GPUChoice(
        gpu.name,
        gpu.max_per_node,
        gpu.ray_accelerator_type,
        gpu.node_labels,
        gpu.resource,
        gpu.taints,
        gpu.compute_capability,
        gpu.host_architecture,
    )
    if chosen.verdict == "invalid" and options_of(request.service).gpus is None:
        return replace(plan, gpu=choice if len(request.gpus) == 1 else None)
    plan = replace(plan, gpu=choice, parallelism=parallelism)
    if chosen.verdict == "invalid":
        return plan
    settings = transformers_plan(request, chosen, _max_memory(request.service, chosen), _devices(request, chosen))
    checkpoint = request.checkpoint_bytes or checkpoint_bytes(request)
    offloaded = chosen.spread.offloaded if chosen.spread else 0
    pods, least = transformers_pods(gpu, chosen.gpus, checkpoint, offloaded, request.service.resources)
    problem = _host_problem(chosen, pods, least, offloaded)
    if problem is not None and plan.runs:
        plan = replace(plan, verdict="does-not-fit", reasons=(problem,))
    origin, start = origin_of(request.service), EngineStart(prepares=False)
    return replace(
        plan,
        notes=(*plan.notes, *_chosen_notes(request, chosen)),
        transformers=settings,
        pods=pods,
        startup=startup(checkpoint, origin, start),
        storage=compare_ways(
            checkpoint,
            origin,
            start,
            nodes=1,
            replicas=replicas.max,
            caches=None,
            counted=request.checkpoint_bytes is not None,
        ),
        cost=cost(gpu, chosen.gpus, parallelism.replicas, parallelism.max_replicas, None),
    )


def _devices(request: Request, chosen: DeviceLayout) -> tuple[DevicePlan, ...]:
    """The GPUs, and what of the pod's memory layers take."""
    found = chosen.spread
    if found is None:
        return ()
    if not found.offloaded:
        return found.devices
    on_gpus = sum(one.layers for one in found.devices)
    limit = int(parse_quantity(options_of(request.service).cpu_memory or "0"))
    return (*found.devices, DevicePlan("cpu", limit, request.facts.layer_count - on_gpus, found.offloaded))


def _max_memory(service: LLMService, chosen: DeviceLayout) -> dict[str, str]:
    """The limits of devices, where the user states one; those of GPUs leave room for cache and activations."""
    options = options_of(service)
    if chosen.spread is None or (options.max_memory_per_gpu is None and options.cpu_memory is None):
        return {}
    found = {str(index): _size(chosen.spread.limit) for index in range(chosen.gpus)}
    if options.cpu_memory is not None:
        found["cpu"] = _size(int(parse_quantity(options.cpu_memory)))
    return found


def _size(number_of_bytes: int) -> str:
    """As accelerate reads it, rounded down to whole MiB."""
    return f"{number_of_bytes // GIB}GiB" if number_of_bytes % GIB == 0 else f"{number_of_bytes // MIB}MiB"


def _host_problem(chosen: DeviceLayout, pods: PodSizes, least: str, offloaded: int) -> Reason | None:
    """Why the pod cannot hold the layers in CPU memory."""
    if not offloaded:
        return None
    what = f"the worker needs {least} of memory, {gib(offloaded)} GiB of it for layers off the GPUs"
    if parse_quantity(pods.worker_memory) < parse_quantity(least):
        return Reason("worker-memory", f"{what}; its limit is {pods.worker_memory}", f"--memory {least}")
    most = most_memory_gib(chosen.gpu, chosen.gpus)
    if most is not None and parse_quantity(least) > most * GIB:
        message = f"{what}; a machine with {chosen.gpu.name} has {most} GiB for pods at most"
        return Reason("worker-memory", message, "more GPUs: spec.engine.transformers.gpus")
    return None


def _chosen_notes(request: Request, chosen: DeviceLayout) -> Iterator[str]:
    """What was decided for the user and may surprise."""
    facts, options = request.facts, options_of(request.service)
    if chosen.batch > 1:
        yield (
            f"a beam search computes its prompt for every beam at once: {chosen.loading.context:,} tokens, all beams "
            "together, are planned for"
        )
    if facts.dtype and chosen.loading.dtype != facts.dtype and request.service.engine.dtype in (None, "auto"):
        short = chosen.loading.dtype == "float16"
        why_so = f"{chosen.gpu.name} does not support bfloat16" if short else "the plan's default for float32"
        yield f"{facts.dtype} weights are loaded in {chosen.loading.dtype}: {why_so}"
    offloaded = chosen.spread.offloaded if chosen.spread else 0
    if offloaded:
        yield (
            f"{gib(offloaded)} GiB of layers stay in CPU memory and are copied to a GPU for every token of a batch, "
            "which is slow"
        )
    elif options.cpu_memory is not None:
        yield "spec.engine.transformers.cpuMemory is not needed: the GPUs hold all layers"

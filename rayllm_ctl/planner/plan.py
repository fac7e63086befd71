"""The whole answer: check the request, search, and put the best candidate into a Plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.calibration import Calibration, calibrated_part
from rayllm_ctl.model.plan.plan import Band, GPUChoice, ParallelismPlan, Plan, Reason, Suggestion
from rayllm_ctl.model.spec.checks.engine_args import DATA_PARALLEL
from rayllm_ctl.model.spec.service import Resources
from rayllm_ctl.planner.deployment.pods import gpu_pods, memory_problem, size_notes
from rayllm_ctl.planner.engine.checks import request_problems
from rayllm_ctl.planner.engine.items import least_step
from rayllm_ctl.planner.engine.parallelism import ACROSS_NODES, gpus_of_a_node
from rayllm_ctl.planner.engine.refusal import Refusal
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.engine.settings import engine_settings, rejects_float16, resolve_settings
from rayllm_ctl.planner.explain import formula_lines, summaries, why
from rayllm_ctl.planner.memory import whole_weights
from rayllm_ctl.planner.request import Candidate, Request
from rayllm_ctl.planner.search import search_plan
from rayllm_ctl.planner.speed.cost import cost
from rayllm_ctl.planner.speed.curve import load_curve
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import origin_of
from rayllm_ctl.planner.speed.startup import startup
from rayllm_ctl.planner.speed.ways import compare_ways
from rayllm_ctl.planner.suggest import alternatives, corrections, suggestions

_SHOWN = 2
"""Calibrations for something else that a note names."""


def decide(request: Request, *, explain: bool = False, curve: bool = False) -> Plan:
    """The plan of a GPU service. explain: with every candidate and every formula. curve: with the speed by load in
    as many points as a picture needs."""
    problems = tuple(request_problems(request))
    if problems:
        return _refused(request, problems)
    ranked = search_plan(request)
    chosen = ranked[0]
    if chosen.throughput is not None:
        points = load_curve(request, chosen, drawn=curve)
        chosen = replace(chosen, throughput=replace(chosen.throughput, curve=points))
    if chosen.verdict == "fits":
        changes, reasons = alternatives(request, ranked), why(request, ranked)
    else:
        changes = suggestions(request, chosen)
        reasons = _with_suggestion(chosen.reasons, changes)
    formulas = chosen.estimate.formulas if explain and chosen.estimate else ()
    plan = Plan(
        verdict=chosen.verdict,
        model=request.service.model.id,
        facts_source=request.source,
        reasons=reasons,
        suggestions=changes,
        candidates=summaries(ranked) if explain else (),
        formulas=formula_lines(formulas),
        notes=request.notes,
    )
    return _filled(plan, request, chosen)


def _refused(request: Request, problems: tuple[Refusal, ...]) -> Plan:
    changes = corrections(request, problems)
    return Plan(
        verdict="invalid",
        model=request.service.model.id,
        facts_source=request.source,
        reasons=_with_suggestion(tuple(problem.reason for problem in problems), changes),
        suggestions=changes,
        notes=request.notes,
    )


def _with_suggestion(reasons: tuple[Reason, ...], changes: tuple[Suggestion, ...]) -> tuple[Reason, ...]:
    """`reasons`, the first with the first of `changes` unless it has a remedy of its own."""
    if not reasons or not changes or reasons[0].suggestion:
        return reasons
    return (replace(reasons[0], suggestion=changes[0].flags), *reasons[1:])


def _filled(plan: Plan, request: Request, chosen: Candidate) -> Plan:
    """`plan` with the sections that the candidate can fill."""
    shape, service = chosen.shape, request.service
    most = max(chosen.replicas, chosen.max_replicas)
    data = shape.data if shape.data > 1 else None
    parallelism = ParallelismPlan(shape.tensor, shape.pipeline, chosen.replicas, most, data=data)
    gpu = GPUChoice(
        name=shape.gpu.name,
        count_per_node=shape.gpu.max_per_node,
        ray_accelerator_type=shape.gpu.ray_accelerator_type,
        node_labels=shape.gpu.node_labels,
        resource=shape.gpu.resource,
        taints=shape.gpu.taints,
        compute_capability=shape.gpu.compute_capability,
        host_architecture=shape.gpu.host_architecture,
    )
    if chosen.verdict == "invalid" and not request.names_hardware:
        # The reason does not depend on how many GPUs there are, and nobody asked for so many.
        return replace(plan, gpu=gpu if len(request.gpus) == 1 else None)
    plan = replace(plan, gpu=gpu, parallelism=parallelism)
    if chosen.estimate is None or chosen.settings is None:
        return plan
    memory = chosen.estimate.plan
    checkpoint = request.checkpoint_bytes or memory.parameter_bytes * shape.gpus
    # The ranks of data parallelism are packed like stages: as many as a node holds.
    stages = shape.data * shape.pipeline
    pods = gpu_pods(shape.gpu, shape.tensor, stages, checkpoint, service.resources)
    planned = gpu_pods(shape.gpu, shape.tensor, stages, checkpoint, Resources())
    problem = memory_problem(pods, planned)
    if problem is not None and plan.runs:
        plan = replace(plan, verdict="does-not-fit", reasons=(problem,), suggestions=())
    engine = EngineStart(
        complex_model=request.facts.moe or "hybrid" in request.facts.traits, eager=chosen.settings.eager
    )
    origin, caches = origin_of(service), service.storage.caches
    tokens = chosen.throughput.at_load.output_tokens_per_second if chosen.throughput else None
    return replace(
        plan,
        notes=(*plan.notes, *_notes(request, chosen, chosen.settings), *size_notes(pods, planned)),
        memory=replace(
            memory,
            kv_needed_bytes=chosen.estimate.kv_bytes_per_request,
            kv_cache_bytes=_whole(memory.kv_cache_bytes),
            kv_cache_tokens=_whole(memory.kv_cache_tokens),
        ),
        engine=engine_settings(request, chosen.settings),
        pods=pods,
        startup=startup(checkpoint, origin, engine, nodes=pods.workers_per_replica, caches=caches),
        storage=compare_ways(
            checkpoint,
            origin,
            engine,
            nodes=pods.workers_per_replica,
            replicas=most,
            caches=caches,
            counted=request.checkpoint_bytes is not None,
        ),
        throughput=chosen.throughput,
        cost=cost(shape.gpu, shape.gpus, parallelism.replicas, parallelism.max_replicas, tokens),
    )


def _stored_bytes(request: Request) -> float:
    """Bytes of the files; weights that are quantized while loading are larger there."""
    return request.checkpoint_bytes or whole_weights(request.facts, request.facts.dtype)


def _notes(request: Request, chosen: Candidate, settings: ResolvedSettings) -> Iterator[str]:
    """What was decided for the user and may surprise."""
    if request.unexplained and request.checkpoint_bytes:
        side = "more" if request.unexplained > 0 else "less"
        planned = "with the size of the files" if request.planned_by_files else "as its config describes it"
        yield (
            f"the checkpoint's files hold {gib(request.checkpoint_bytes)} GiB, {gib(abs(request.unexplained))} GiB "
            f"{side} than its config describes: planned {planned}, in a band that reaches to the other"
        )
    if "speculative_config" in request.service.engine.args and request.service.load.accepted_tokens is None:
        yield (
            "speed is computed without speculative decoding: --accepted-tokens N includes it, with N as measured "
            "(1 + accepted / drafts, vLLM's spec_decode metrics)"
        )
    if request.calibrations and chosen.throughput and chosen.throughput.calibration is None:
        wanted_part = calibrated_part(*request.calibrated_part(chosen.shape, settings))
        others = "; ".join(map(str, _closest(request)))
        yield f"the speed of {wanted_part} was not measured: the calibration is for {others}, and is not used for it"
    gpu, wanted, tensor = chosen.shape.gpu, request.service.engine, chosen.shape.tensor
    if chosen.shape.data > 1:
        yield f"planned only: {DATA_PARALLEL}"
        if not request.facts.moe:
            yield "without experts to share, ranks of data parallelism are the same as replicas: --replicas"
    if tensor > gpu.max_per_node:
        yield f"TP {tensor} spans {tensor // gpus_of_a_node(gpu, tensor)} nodes: {ACROSS_NODES}"
    elif request.service.parallelism.across_nodes and tensor * chosen.shape.data <= gpu.max_per_node:
        yield f"--tp-across-nodes has no effect: TP {tensor} fits on one node with {gpu.name}"
    stored = request.facts.dtype
    if settings.dtype != stored and wanted.dtype in (None, "auto"):
        whys = [] if settings.dtype == "bfloat16" else [f"{gpu.name} does not support bfloat16"]
        if (stored == "float16" or whys) and rejects_float16(request.facts, request.engine.release):
            whys.append(f"vLLM does not serve {request.facts.model_type} in float16")
        lacks = " and ".join(whys)
        if stored:
            why = lacks or "vLLM's default for float32"
            yield f"{stored} weights are served in {settings.dtype}: {why}"
        elif lacks:
            yield f"the model is served in {settings.dtype}: {lacks}"
    default = resolve_settings(request, chosen.shape, settings.max_model_len).max_num_seqs
    if settings.max_num_seqs < default:
        yield (
            f"max_num_seqs is {settings.max_num_seqs:,} instead of {default:,}: "
            "the KV cache must hold the recurrent state of each sequence"
        )
    usual, _ = request.engine.batch_defaults_for(gpu)
    if wanted.max_num_batched_tokens is None and settings.max_num_batched_tokens > usual:
        image = settings.max_num_batched_tokens == least_step(request.facts, wanted.args)
        held = "all tokens of an image or a video" if image else "a token of each sequence"
        if image or settings.max_num_seqs > usual:
            yield (
                f"max_num_batched_tokens is {settings.max_num_batched_tokens:,} instead of {usual:,}: "
                f"a step must hold {held}"
            )
    if gpu.vendor != "nvidia" and wanted.image is None:
        yield f"{gpu.name} requires an image built for it (--image): the default image is for NVIDIA GPUs"
    quantized = request.facts.quantization
    if quantized and quantized.assumed:
        yield f"config.json does not state how {quantized.method} weights are stored: {quantized.assumed} are assumed"
    multiplied = dict(request.work(settings).operations)
    if quantized and quantized.weight_bits == 8 and "fp8" in multiplied and "fp8" not in gpu.flops:
        yield f"{gpu.name} does not support fp8 arithmetic: weights stay in 8 bits, computation is 16-bit"


def _closest(request: Request) -> list[Calibration]:
    """The first calibrations of this model, or else of others."""
    mine = [one for one in request.calibrations if one.model == request.service.model.id]
    return (mine or list(request.calibrations))[:_SHOWN]


def _whole(band: Band) -> Band:
    """Bytes and tokens are counted, so a machine reads them as whole numbers."""
    return Band(int(band.low), int(band.typical), int(band.high))

"""The plan of a model on the Transformers engine on CPUs: a pod to size, no devices to spread layers over."""

from __future__ import annotations

import math
from dataclasses import replace

from rayllm_ctl.model.kube.quantities import GIB, gib, parse_quantity
from rayllm_ctl.model.plan.plan import ParallelismPlan, Plan, Reason
from rayllm_ctl.model.plan.transformers import TransformersPlan
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.pods import cpu_pods
from rayllm_ctl.planner.engine.context import context_reasons, default_context
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.speed.engineinit import EngineStart
from rayllm_ctl.planner.speed.loading import origin_of
from rayllm_ctl.planner.speed.startup import startup
from rayllm_ctl.planner.speed.ways import compare_ways
from rayllm_ctl.planner.transformers.activations import transformers_layer_bytes
from rayllm_ctl.planner.transformers.gpu import checkpoint_bytes, contradictions, gpu_notes, load_warnings, speed_notes
from rayllm_ctl.planner.transformers.layouts import DEFAULT_BATCH, context_of, options_of
from rayllm_ctl.planner.transformers.parts import Loading, parts_of

_UNSEEN_CONTEXT = 1024


def plan_transformers_cpu(request: Request) -> Plan:
    """The plan of a CPU service."""
    service, facts, engine = request.service, request.facts, request.service.engine
    refused = tuple(contradictions(request))
    if refused:
        return Plan("invalid", service.model.id, request.source, refused, notes=request.notes)
    dtype = _spelled(engine.dtype) if engine.dtype not in (None, "auto") else facts.dtype or "float32"
    loading = Loading(dtype, engine.quantization, context_of(request))
    parts, batch = parts_of(facts, loading), engine.max_num_seqs or DEFAULT_BATCH
    weights, request_bytes = sum(part.weights for part in parts), sum(part.cache for part in parts)
    working = batch * request_bytes + transformers_layer_bytes(facts, loading)
    stored = request.checkpoint_bytes or checkpoint_bytes(request)
    plan = _plan(service, request.source, loading, batch, weights, request_bytes, working, stored)
    plan = replace(
        plan,
        notes=(*request.notes, *gpu_notes(request)),
        warnings=load_warnings(service.load),
    )
    assert plan.pods is not None
    limit = plan.pods.worker_memory
    if weights + working <= parse_quantity(limit):
        return plan
    needed = f"{math.ceil((weights + working) / GIB) + 5}Gi"
    message = (
        f"weights of {gib(weights)} GiB and {gib(working)} GiB for {batch} requests of {loading.context:,} tokens "
        f"exceed the worker's limit of {limit}"
    )
    return replace(plan, verdict="does-not-fit", reasons=(Reason("worker-memory", message, f"--memory {needed}"),))


def plan_unseen_cpu(service: LLMService, source: str) -> Plan:
    """The plan of a model in a folder that only the pods see; nothing is proven."""
    engine = service.engine
    refused = tuple(context_reasons(service, None))
    if refused:
        return Plan("invalid", service.model.id, source, refused)
    context = engine.max_model_len or default_context(service.load, _UNSEEN_CONTEXT, None)
    loading = Loading(_spelled(engine.dtype or "auto"), engine.quantization, context)
    plan = _plan(service, source, loading, engine.max_num_seqs or DEFAULT_BATCH, 0, 0, GIB, 0)
    unseen = Reason(
        "model-not-visible",
        f"folder {service.model.path} is only visible in the pods: memory cannot be checked without a copy of its "
        "config.json",
        "--model-config FOLDER",
    )
    notes, warnings = speed_notes(service.load), load_warnings(service.load)
    return replace(plan, verdict="risky", proven=False, reasons=(unseen,), notes=notes, warnings=warnings)


def _plan(
    service: LLMService,
    source: str,
    loading: Loading,
    batch: int,
    weights: int,
    request_bytes: int,
    working: int,
    stored: int,
) -> Plan:
    """stored: bytes of the checkpoint."""
    pods = cpu_pods(weights, working, 1, service.resources)
    # Ray tells PyTorch to use as many threads as the replica has logical CPUs (OMP_NUM_THREADS).
    cpus = max(1, math.floor(parse_quantity(pods.worker_cpu)))
    origin, start = origin_of(service), EngineStart(prepares=False)
    return Plan(
        verdict="fits",
        model=service.model.id,
        facts_source=source,
        parallelism=ParallelismPlan(1, 1, service.replicas.min, service.replicas.max),
        transformers=TransformersPlan(
            dtype=loading.dtype,
            max_model_len=loading.context,
            max_num_seqs=batch,
            gpus=0,
            cpus=cpus,
            max_memory={},
            quantization=loading.quantization,
            trust_remote_code=options_of(service).trust_remote_code,
            weights_bytes=weights,
            kv_request_bytes=request_bytes,
        ),
        pods=replace(pods, engine_cpus=float(cpus)),
        startup=startup(stored, origin, start),
        storage=compare_ways(stored, origin, start, nodes=1, replicas=service.replicas.max, caches=None, counted=False)
        if stored
        else None,
    )


def _spelled(dtype: str | None) -> str:
    """vLLM's other names of data types by those of Transformers."""
    return {"half": "float16", "float": "float32"}.get(dtype or "", dtype or "")

"""One candidate judged: can it be built, does its memory hold, is it fast enough, what does it cost."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.hardware import GPU, INSTANCE_TYPE_LABEL
from rayllm_ctl.model.plan.plan import Reason, Verdict
from rayllm_ctl.planner.engine.architecture import model_caveats
from rayllm_ctl.planner.engine.checks import build_caveats, gpu_problems, uncounted_arguments
from rayllm_ctl.planner.engine.parallelism import layout_problem
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.engine.settings import resolve_load, resolve_settings, round_context
from rayllm_ctl.planner.memory import MemoryEstimate, estimate
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.request import Candidate, Request, Shape
from rayllm_ctl.planner.speed.cost import replica_price
from rayllm_ctl.planner.speed.replica import replica_speed
from rayllm_ctl.planner.speed.sizing import size_deployment
from rayllm_ctl.planner.speed.throughput import throughput

_REJECTED = 0.01
"""The largest share of requests that may exceed the context."""

_ORDER: tuple[Verdict, ...] = ("fits", "risky", "does-not-fit", "invalid")


def evaluate(request: Request, shape: Shape, context: int) -> Candidate:
    """The verdict on `shape` with a context of `context` tokens."""
    price = replica_price(shape.gpu, shape.gpus)
    consent = request.service.parallelism.across_nodes
    layout = layout_problem(
        request.facts, shape.gpu, shape.tensor, shape.pipeline, request.division(shape.gpu), across_nodes=consent
    )
    refusals = (*(p.reason for p in gpu_problems(request, shape)), *((layout,) if layout else ()))
    if refusals:
        return Candidate(shape, "invalid", refusals, price=price)
    settings, memory = _settled(request, shape, context)
    verdict, reasons = memory_verdict(memory, settings, shape)
    larger = shape.gpu.larger() if verdict == "does-not-fit" else None
    if larger is not None:
        # Which machines there will be is not known.
        other = evaluate(request, replace(shape, gpu=larger), context)
        if other.runs:
            reason = _depends_on_machine(shape.gpu, larger)
            return replace(other, verdict="risky", reasons=(reason, *other.reasons), price=price)
    if verdict != "does-not-fit" and request.service.engine.max_num_seqs is not None:
        limited, too_many = sequences_verdict(memory, settings)
        verdict, reasons = max(verdict, limited, key=_ORDER.index), (*too_many, *reasons)
    known = (
        *build_caveats(request, shape.gpu),
        *model_caveats(request.service, request.facts, request.engine),
        *uncounted_arguments(request),
    )
    caveats = (*known, *request.caveats)
    if caveats:
        verdict, reasons = max(verdict, "risky", key=_ORDER.index), (*reasons, *caveats)
    candidate = Candidate(shape, verdict, reasons, settings, memory, price=price)
    return candidate if verdict == "does-not-fit" else _with_load(request, candidate, settings, memory)


def _depends_on_machine(gpu: GPU, larger: GPU) -> Reason:
    machines = [shape.instance_type for shape in larger.shapes]
    message = (
        f"{gpu.name} has {gib(larger.memory_bytes)} GiB on {' and '.join(machines)}, where it fits, and "
        f"{gib(gpu.memory_bytes)} GiB elsewhere, where it does not"
    )
    return Reason("gpu-memory-differs", message, f"--node-selector {INSTANCE_TYPE_LABEL}={machines[0]}")


def _settled(request: Request, shape: Shape, context: int) -> tuple[ResolvedSettings, MemoryEstimate]:
    """The settings and what they take. A max_num_seqs that the user leaves open is halved until the engine starts with
    it; where it does not start with one, vLLM's default is kept."""

    def estimated(settings: ResolvedSettings) -> tuple[ResolvedSettings, MemoryEstimate]:
        memory = estimate(
            request.facts, shape.gpu, request.engine, settings, request.cache, request.draft, request.unexplained
        )
        return settings, memory

    settings, memory = first = estimated(resolve_settings(request, shape, context))
    if request.service.engine.max_num_seqs is not None:
        return first
    while not _starts(memory, settings):
        if settings.max_num_seqs == 1:
            return first
        settings, memory = estimated(resolve_settings(request, shape, context, settings.max_num_seqs // 2))
    return settings, memory


def _starts(memory: MemoryEstimate, settings: ResolvedSettings) -> bool:
    """Whether max_num_seqs is allowed at the low end of the band if that holds a request, else at the likely figure."""
    most = memory.most_sequences
    return most is None or settings.max_num_seqs <= (most.low if memory.holds_one[0] else most.typical)


def hopeless(request: Request, shape: Shape) -> Candidate | None:
    """A candidate whose weights alone are larger than its GPUs, told without laying out its memory; else None."""
    settings = resolve_settings(request, shape, 1)
    held = request.work(settings).held_bytes + request.planned_by_files
    weights = held / shape.gpus - read_options(settings.args).offload
    requested = shape.gpu.memory_bytes * settings.gpu_memory_utilization
    if weights <= requested:
        return None
    message = f"at least {gib(weights)} GiB of weights per GPU exceed the {gib(requested)} GiB of {shape.gpu.name}"
    reason = Reason("weights-exceed-memory", message)
    return Candidate(shape, "does-not-fit", (reason,), price=replica_price(shape.gpu, shape.gpus))


def _with_load(request: Request, candidate: Candidate, settings: ResolvedSettings, memory: MemoryEstimate) -> Candidate:
    """The candidate with its speed, and the replicas that the load needs."""
    shape, facts = candidate.shape, request.facts
    rate = replica_speed(request, shape, settings, request.calibration(shape, settings))
    load = resolve_load(request.service, settings.max_model_len)
    if load.mix is not None and load.mix.beyond > _REJECTED:
        candidate = _rejecting(candidate, load.mix.beyond, settings.max_model_len)
    sizing = size_deployment(request, memory, rate, load, settings.max_num_seqs)
    return replace(
        candidate,
        verdict=max(candidate.verdict, sizing.verdict, key=_ORDER.index),
        reasons=(*candidate.reasons, *sizing.reasons),
        throughput=throughput(facts, rate, load, sizing.batch, sizing.within),
        replicas=sizing.replicas,
        max_replicas=sizing.max_replicas,
    )


def _rejecting(candidate: Candidate, share: float, context: int) -> Candidate:
    message = f"{share:.1%} of prompts exceed the context of {context:,} tokens, and vLLM rejects them"
    verdict = max(candidate.verdict, "risky", key=_ORDER.index)
    return replace(candidate, verdict=verdict, reasons=(*candidate.reasons, Reason("load-above-context", message)))


def memory_verdict(
    memory: MemoryEstimate, settings: ResolvedSettings, shape: Shape
) -> tuple[Verdict, tuple[Reason, ...]]:
    """Whether one request of max_model_len fits at the low end of the band, or at the typical figure, and why not."""
    if memory.cannot_load is not None:
        return "does-not-fit", (memory.cannot_load,)
    sure, likely, _ = memory.holds_one
    if sure and not memory.problems:
        return "fits", ()
    plan, need = memory.plan, memory.kv_bytes_per_request
    name, per_gpu = (
        shape.gpu.name,
        f"{gib(plan.weights_bytes)} GiB of weights in {gib(plan.requested_bytes)} GiB per GPU",
    )
    if likely and memory.problems:
        # What lies outside the budget is known from few logs: enough to doubt a start, too little to rule it out.
        return "risky", memory.problems
    if memory.leaner_sampler and not memory.problems:
        return "risky", (_depends_on_sampler(memory, settings),)
    if plan.kv_cache_bytes.typical <= 0:
        return "does-not-fit", (Reason("weights-exceed-memory", f"{per_gpu} of {name} leave no memory for a KV cache"),)
    context = f"one request of {settings.max_model_len:,} tokens"
    if not likely:
        return "does-not-fit", (
            Reason(
                "kv-cache-too-small",
                f"{per_gpu} of {name} leave {gib(plan.kv_cache_bytes.typical)} GiB for the KV cache; "
                f"{context} needs {gib(need)} GiB",
            ),
        )
    needed, least = gib(need), gib(plan.kv_cache_bytes.low)
    if needed == least:
        needed, least = (f"{size / GIB:.3f}" for size in (need, plan.kv_cache_bytes.low))
    return "risky", (
        Reason(
            "kv-cache-uncertain",
            f"{context} needs {needed} GiB of KV cache; {gib(plan.kv_cache_bytes.typical)} GiB is likely, "
            f"but it may be only {least} GiB",
        ),
    )


def _depends_on_sampler(memory: MemoryEstimate, settings: ResolvedSettings) -> Reason:
    sorting = memory.plan.activation_bytes
    message = (
        f"one request of {settings.max_model_len:,} tokens fits if FlashInfer is installed, as in vLLM's own images; "
        f"otherwise sampling for {settings.max_num_seqs:,} requests takes {gib(sorting)} GiB instead of "
        f"{gib(sorting - memory.leaner_sampler)}, and it does not"
    )
    return Reason("sampler-unknown", message, f"--max-num-seqs {max(1, settings.max_num_seqs // 4)}")


def sequences_verdict(memory: MemoryEstimate, settings: ResolvedSettings) -> tuple[Verdict, tuple[Reason, ...]]:
    """Whether the engine starts with max_num_seqs at the low end of the band, or at the typical figure, and why not."""
    most, asked = memory.most_sequences, settings.max_num_seqs
    if most is None or asked <= most.low:
        return "fits", ()
    sure = most_sure_sequences(memory)
    suggestion = f"--max-num-seqs {sure}" if sure else ""
    state = "each sequence requires a block of recurrent state"
    if asked > most.typical:
        message = f"max_num_seqs {asked:,} exceeds the {most.typical:,.0f} blocks of the KV cache; {state}"
        return "does-not-fit", (Reason("sequences-exceed-blocks", message, suggestion),)
    message = f"max_num_seqs {asked:,} may exceed the blocks of the KV cache, at least {most.low:,.0f}; {state}"
    return "risky", (Reason("sequences-uncertain", message, suggestion),)


def most_sure_sequences(memory: MemoryEstimate) -> int:
    """The largest power of two that max_num_seqs may surely be; 0: none, or no limit."""
    held = int(memory.most_sequences.low) if memory.most_sequences else 0
    return 1 << held.bit_length() >> 1


def longest_sure_context(candidate: Candidate, limit: int) -> int:
    """The longest context up to `limit` that the low end of the candidate's band holds, rounded down; 0: none."""
    if candidate.estimate is None:
        return 0
    return min(limit, round_context(max(0.0, candidate.estimate.longest_context.low)))

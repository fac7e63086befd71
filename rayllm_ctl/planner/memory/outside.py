"""What lies outside the budget and still ends a start: memory that is not free, graphs, holes and warm-ups."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.memory.budget import Budget, EstimateContext
from rayllm_ctl.planner.memory.overheads import linked

_REST = 0.12 * GIB
"""The least in use before vLLM starts that every log shows: above this much a start is rejected."""

_HOLES = 1.8 * GIB
"""What experts leave reserved in holes after they are laid out again: 1.6 to 1.8 GiB (gpt-oss on H100); with 1.6 GiB to
spare they failed, dense models started with 0.1 to 0.35."""

_SORTING = 0.4
"""Of the sorting sampler's peak: its warm-up finds its memory in pieces (before 0.17; at utilization 0.95 of an H100
1,024 requests x 201k entries failed beside gpt-oss-120b, 152k entries did not)."""


_HOST = 18.0 * GIB
"""What the machine itself uses where its memory is the GPU's: 101 to 102 of the 121.69 GiB of a GB10 are free when vLLM
starts (two machines without a desktop), and of the shares of it that recipes state, 0.85 starts and 0.92 does not."""


def context_bytes(context: EstimateContext) -> float:
    """What is in use when vLLM looks at a GPU: 0.5 GiB on one H100, 2.0 at TP 2 and 2.1 at TP 4 with NVLink (0.19);
    less on smaller cards."""
    if context.gpu.unified_memory:
        return _HOST
    single = 0.5 if context.gpu.memory_bytes >= 70 * GIB else 0.3
    group = context.settings.tensor * context.shape.data
    if group == 1:
        return single * GIB
    if not linked(context.gpu):
        return (single + 0.2) * GIB
    return (2.0 if group == 2 else 2.1) * GIB


def loading_problem(context: EstimateContext, budget: Budget) -> Reason | None:
    """Why the weights do not load, though there would be enough memory for them once they are quantized."""
    free = context.gpu.memory_bytes - context_bytes(context)
    if budget.loading <= free:
        return None
    version = ".".join(map(str, context.release))
    return Reason(
        "loading-exceeds-memory",
        f"vLLM {version} loads all weights in 16 bits before it quantizes them, which takes {gib(budget.loading)} GiB; "
        f"{gib(free)} GiB are free on {context.gpu.name} (vLLM 0.16 and newer quantize each layer as it is loaded)",
    )


def outside_problems(context: EstimateContext, budget: Budget) -> Iterator[Reason]:
    """What would still end the start-up though the KV cache is large enough."""
    total, used = context.gpu.memory_bytes, context_bytes(context)
    share = context.settings.gpu_memory_utilization
    if context.requested > total - _REST:
        message = f"utilization {share:g} exceeds the memory that is free on {context.gpu.name} at start-up"
        yield Reason("utilization-too-high", message, f"--gpu-memory-utilization {_floor((total - used) / total)}")
        return
    fixed = context.options.cache_bytes
    if fixed:
        taken = budget.weights + budget.adapters + budget.non_torch.low + budget.peak.total
        spare = total - used - taken - fixed
        if spare < 0:
            message = (
                f"a KV cache of {gib(fixed)} GiB exceeds the memory left on {context.gpu.name} by {gib(-spare)} GiB"
            )
            yield Reason("kv-cache-too-large", message, f"--kv-cache-memory-bytes {max(0, int(fixed + spare))}")
        return
    graphs = max(0.0, budget.graphs.used.typical - budget.graphs.counted.typical)
    rest, what = _rest(context, budget)
    if total - context.requested - used < graphs + rest:
        left = gib(max(0.0, total - context.requested - used))
        parts = " and ".join(part for part in ("CUDA graphs" if graphs else "", what) if part)
        message = (
            f"memory outside utilization {share:g} is insufficient on {context.gpu.name}: {left} GiB are free, {parts} "
            f"need about {gib(graphs + rest)} GiB"
            if parts
            else f"utilization {share:g} of {context.gpu.name} is {gib(context.requested)} GiB, more than the "
            f"{gib(total - used)} GiB that are free when vLLM starts"
        )
        works = _floor((total - used - graphs - rest) / total)
        yield Reason("outside-budget", message, f"--gpu-memory-utilization {works}")


def _rest(context: EstimateContext, budget: Budget) -> tuple[float, str]:
    """(bytes that must be free besides the graphs, what needs them)."""
    sampler = 0.0 if vllm_rules.SAMPLER_SELECTS.holds(context.release) else _SORTING * budget.peak.sampler
    holes = _HOLES if context.facts.moe and context.kernel.rearranged else 0.0
    if holes > sampler:
        return holes, f"the holes that {context.kernel.name} leaves among the experts"
    return sampler, f"the sampler's warm-up for {context.settings.max_num_seqs:,} requests" if sampler else ""


def _floor(share: float) -> str:
    return f"{max(0, int(share * 100)) / 100:g}"

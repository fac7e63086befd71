"""What lies outside the budget and still ends a start: memory that is not free, graphs and warm-ups without room."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.plan import Reason
from rayllm_ctl.model.quantities import GIB, gib
from rayllm_ctl.planner.memory.budget import Budget, EstimateContext


def _context(case: EstimateContext) -> float:
    """What the CUDA context takes before vLLM looks at a GPU: about 0.5 GiB on H100, less on smaller cards."""
    return (0.45 if case.gpu.memory_bytes >= 70 * GIB else 0.3) * GIB


_REST = 0.12 * GIB
"""The least of it that every log shows: above this much a start is refused."""

_FRAGMENTS = 0.4
"""The sampler's warm-up finds its memory in pieces: at utilization 0.95 of an H100 with 1024 requests and 201k entries
(7.3 GiB before 0.17) 2.5 GiB of further room did not do; with 152k entries (5.4 GiB) they did."""

_GRAPHS = 0.8
"""The share of the likely CUDA graphs that must find room: a plan is refused only where less would not do either."""


def outside_problems(case: EstimateContext, budget: Budget) -> Iterator[Reason]:
    """What would still end the start-up though the KV cache is large enough."""
    total, settings = case.gpu.memory_bytes, case.settings
    share = settings.gpu_memory_utilization
    if case.requested > total - _REST:
        message = f"utilization {share:g} asks for more than the CUDA context leaves free on {case.gpu.name}"
        yield Reason(
            "utilization-too-high", message, f"--gpu-memory-utilization {_floor((total - _context(case)) / total)}"
        )
        return
    fixed = case.options.cache_bytes
    if fixed:
        spare = (
            total - _context(case) - budget.weights - budget.adapters - budget.non_torch.low - budget.peak.total - fixed
        )
        if spare < 0:
            message = f"a KV cache of {gib(fixed)} GiB is {gib(-spare)} GiB more than {case.gpu.name} has left"
            yield Reason("kv-cache-too-large", message, f"--kv-cache-memory-bytes {max(0, int(fixed + spare))}")
        return
    room = total - case.requested - _context(case)
    graphs = max(0.0, _GRAPHS * budget.graphs.used.typical - budget.graphs.counted.typical)
    needed = graphs + _FRAGMENTS * budget.peak.sampler
    if room < needed:
        message = (
            f"utilization {share:g} leaves {gib(max(0.0, room))} GiB of {case.gpu.name} outside its budget, where CUDA "
            f"graphs and the sampler's warm-up for {settings.max_num_seqs:,} requests need about {gib(needed)} GiB"
        )
        yield Reason(
            "outside-budget", message, f"--gpu-memory-utilization {_floor((total - _context(case) - needed) / total)}"
        )


def _floor(share: float) -> str:
    return f"{max(0, int(share * 100)) / 100:g}"

"""How many requests a replica takes, how many replicas a load needs, and whether the limits on latency hold."""

from __future__ import annotations

import math

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.plan.plan import Band, Figures, Reason, Verdict
from rayllm_ctl.model.text.lengths import Shares
from rayllm_ctl.planner.memory import MemoryEstimate
from rayllm_ctl.planner.request import Request, Workload
from rayllm_ctl.planner.speed.figures import at_load, in_flight
from rayllm_ctl.planner.speed.figures import likely as likely_figures
from rayllm_ctl.planner.speed.replica import ReplicaSpeed

_BY_LENGTH = frozenset({"full", "mla", "indexer", "pooled"})
"""Kinds of KV group whose blocks grow with the length without a limit."""

_ONE_SIDED = 1.645
"""Deviations of a normal distribution that 95 of 100 cases do not exceed."""


@dataclass(frozen=True)
class Sizing:
    """One replica and how many of it. `batch`: requests in flight in it at the load; `within`: how many it takes."""

    within: Band
    batch: float
    replicas: int
    max_replicas: int
    verdict: Verdict
    reasons: tuple[Reason, ...]


def request_capacity(memory: MemoryEstimate, load: Workload) -> Band:
    """Requests of that length that the KV cache holds at once: for sure if all of them are about to end; usually more,
    because their answers are half written on average and vLLM admits a request as soon as its prompt has blocks.

    Of a mix, the usual number follows from the mean blocks of a request in flight. The sure one from requests about to
    end whose blocks have the mean m and the deviation s: n of them stay below n m + z s sqrt(n) in 95 of 100 cases."""
    if load.mix is not None:
        low, likely = _held(memory, load.mix.ends), _mean_blocks(memory, load.mix.contexts)
        return Band(low, memory.blocks.typical / likely, memory.blocks.high / likely)
    whole = _blocks(memory, load.length)
    usual = _blocks(memory, load.input_tokens + math.ceil(load.output_tokens / 2))
    return Band(memory.blocks.low / whole, memory.blocks.typical / usual, memory.blocks.high / usual)


def _held(memory: MemoryEstimate, ends: Shares) -> float:
    """The largest n with n m + z s sqrt(n) <= blocks."""
    mean, blocks = _mean_blocks(memory, ends), memory.blocks.low
    variance = sum(share * (_blocks(memory, math.ceil(tokens)) - mean) ** 2 for share, tokens in ends)
    deviation = _ONE_SIDED * math.sqrt(max(0.0, variance))
    root = (math.sqrt(deviation**2 + 4 * mean * max(0.0, blocks)) - deviation) / (2 * mean)
    return root**2


def _mean_blocks(memory: MemoryEstimate, lengths: Shares) -> float:
    return sum(share * _blocks(memory, math.ceil(tokens)) for share, tokens in lengths)


def _blocks(memory: MemoryEstimate, length: int) -> int:
    """Blocks that a request of `length` tokens occupies."""
    blocks = 0
    for group in memory.groups:
        needed = math.ceil(length / group.block_size)
        blocks += needed if group.kind in _BY_LENGTH else min(group.blocks_per_request, needed + 1)
    return max(1, blocks)


def size_deployment(
    request: Request, memory: MemoryEstimate, rate: ReplicaSpeed, load: Workload, max_num_seqs: int
) -> Sizing:
    """Replicas for `load`, or whether the replicas that the user fixed can take it."""
    capacity = request_capacity(memory, load)
    ends = (capacity.low, capacity.typical, capacity.high)
    held = Band(*(float(rate.data * max(1, min(math.floor(x), max_num_seqs))) for x in ends))
    sure, likely = _within(rate, load, held.low, "high"), _within(rate, load, held.typical, "typical")
    reasons: list[Reason] = []
    if likely < 1:
        reasons.append(_too_slow(rate, load))
        return Sizing(held, 1.0, 1, 1, "does-not-fit", tuple(reasons))
    verdict: Verdict = "fits"
    if sure < 1:
        reasons.append(_maybe_slow(rate, load))
        verdict = "risky"
    per_replica = sure if sure >= 1 else likely
    given = request.service.replicas
    replicas, most = given.min, given.max
    needed = _needed(rate, load, per_replica)
    if load.stated and not request.hand_sized:
        replicas = most = max(needed, given.min)
    elif load.stated and needed > most:
        enough = _needed(rate, load, likely) <= most
        verdict = _worse(verdict, "risky" if enough else "does-not-fit")
        reasons.append(_too_few(load, most, needed, per_replica, _waiting(rate, load, most, likely)))
    return Sizing(held, _batch(rate, load, sure, likely, most), replicas, most, verdict, tuple(reasons))


def _batch(rate: ReplicaSpeed, load: Workload, sure: float, likely: float, replicas: int) -> float:
    """Requests in flight in one of `replicas` at the load; without one, as many as it is likely to take.

    Of a rate and a concurrency, the one that is more.
    """
    wanted = (load.concurrency or 0) / replicas
    if load.rate is not None:
        found = in_flight(load.rate / replicas, lambda n: at_load(rate, load, n).requests_per_second.typical, likely)
        wanted = max(wanted, likely if found is None else found)
    if load.stated:
        return max(1.0, min(likely, wanted))
    limited = load.ttft is not None or load.tpot is not None
    return max(1.0, sure if limited and sure >= 1 else likely)


def _within(rate: ReplicaSpeed, load: Workload, most: float, end: str) -> float:
    """The largest batch up to `most` that keeps the limits on TTFT and TPOT at that end of the band; 0: none."""
    if load.ttft is None and load.tpot is None:
        return most
    if _keeps(at_load(rate, load, most), load, end):
        return most
    low, high = 0, int(most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _keeps(at_load(rate, load, middle), load, end) else (low, middle)
    return float(low)


def _keeps(figures: Figures, load: Workload, end: str) -> bool:
    ttft: float = getattr(figures.ttft, end)
    tpot: float = getattr(figures.tpot, end)
    return (load.ttft is None or ttft <= load.ttft) and (load.tpot is None or tpot <= load.tpot)


def _needed(rate: ReplicaSpeed, load: Workload, per_replica: float) -> int:
    by_concurrency = math.ceil(load.concurrency / per_replica) if load.concurrency else 1
    by_rate = math.ceil(load.rate / at_load(rate, load, per_replica).requests_per_second.low) if load.rate else 1
    return max(1, by_concurrency, by_rate)


def _worse(one: Verdict, other: Verdict) -> Verdict:
    order: tuple[Verdict, ...] = ("fits", "risky", "does-not-fit", "invalid")
    return max(one, other, key=order.index)


def _too_slow(rate: ReplicaSpeed, load: Workload) -> Reason:
    alone = at_load(rate, load, 1)
    return Reason(
        "latency-not-reached",
        f"a single request takes about TTFT {alone.ttft.typical:.2f} s, TPOT {alone.tpot.typical * 1e3:.1f} ms; "
        f"wanted: {_limits(load)}",
    )


def _maybe_slow(rate: ReplicaSpeed, load: Workload) -> Reason:
    alone = at_load(rate, load, 1)
    return Reason(
        "latency-uncertain",
        f"a single request may take up to TTFT {alone.ttft.high:.2f} s, TPOT {alone.tpot.high * 1e3:.1f} ms; "
        f"wanted: {_limits(load)}",
    )


def _limits(load: Workload) -> str:
    ttft = f"TTFT {load.ttft:g} s" if load.ttft is not None else ""
    tpot = f"TPOT {load.tpot * 1e3:g} ms" if load.tpot is not None else ""
    return ", ".join(limit for limit in (ttft, tpot) if limit)


def _waiting(rate: ReplicaSpeed, load: Workload, replicas: int, held: float) -> float:
    """Seconds that a request waits until a replica takes it, by Little's law; 0 for a load that is a rate, with which
    more and more of them wait."""
    waiting = (load.concurrency or 0) / replicas - held
    return max(0.0, waiting) / likely_figures(rate, load, held).requests_per_second


def _too_few(load: Workload, replicas: int, needed: int, per_replica: float, waiting: float) -> Reason:
    wanted = f"{load.concurrency} requests at once" if load.concurrency else f"{load.rate:g} requests/s"
    return Reason(
        "too-few-replicas",
        f"the maximum of {replicas} replicas is insufficient: {wanted} of {load.length:,} tokens need {needed} with "
        f"{per_replica:.0f} requests each" + (f"; a request waits about {format_duration(waiting)}" if waiting else ""),
        f"--replicas {needed}",
    )

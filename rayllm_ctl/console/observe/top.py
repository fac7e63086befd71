"""Output of `top`: the load of replicas as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.observed.health import format_queue
from rayllm_ctl.model.observed.top import ReplicaLoad, ServiceLoad

_UNKNOWN = "-"


def load_table(load: ServiceLoad) -> str:
    """A row per replica, and the queue, as text that ends in a newline."""
    if load.replicas is None:
        return "".join(f"{problem}\n" for problem in load.problems)
    queue = f"queue: {format_queue(load.queue)}\n" if load.queue else ""
    if not load.replicas:
        return f"no running replicas\n{queue}"
    # vLLM's own server is the only one in its pod: it has no other name.
    named = any(row.replica for row in load.replicas)
    header = (
        "MODEL", *(("REPLICA",) if named else ()), "RUNNING", "WAITING", "PROMPT-TOK/S", "GEN-TOK/S", "KV-CACHE", "GPU",
        "GPU-MEMORY", "POD", "NODE",
    )  # fmt: skip
    table = [header, *(_cells(row, named) for row in load.replicas)]
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join(lines) + f"\n{queue}"


def _cells(row: ReplicaLoad, named: bool) -> Sequence[str]:
    memory = f"{gib(row.gpus.memory_used_bytes)}/{gib(row.gpus.memory_total_bytes)} GiB" if row.gpus else _UNKNOWN
    return (
        row.model,
        *((row.replica or _UNKNOWN,) if named else ()),
        _whole(row.running),
        _whole(row.waiting),
        _rate(row.prompt_tokens_per_second),
        _rate(row.generation_tokens_per_second),
        _percent(row.kv_cache_usage),
        _percent(row.gpus.utilization if row.gpus else None),
        memory,
        row.pod,
        row.node or _UNKNOWN,
    )


def _whole(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _rate(number: float | None) -> str:
    if number is None:
        return _UNKNOWN
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def _percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.0%}"

"""The parts of a service as lines of a tree, for `status` and for a terminal that follows a start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.health import Health, StatusNode
from rayllm_ctl.model.quantities import format_duration

_WELL = frozenset({"RUNNING", "Running", "Ready", "HEALTHY"})
_MOVING = frozenset(
    {"Pending", "Scheduled", "Pulling", "Creating", "Waiting", "Starting", "STARTING", "DEPLOYING", "UPDATING",
     "NOT_STARTED", "Terminating", "STOPPING", "PENDING_MIGRATION", "RECOVERING", "DELETING", "None"}
)  # fmt: skip

FOLD = 6
"""Parts of one kind and state, side by side, that are shown one by one; more become one line."""


@dataclass(frozen=True)
class Row:
    """A line of the tree: depth 0 for a part of the service, 1 for a part of a part."""

    depth: int
    label: str
    state: str
    detail: str
    last: bool


def tree_lines(health: Health, style: Printer) -> list[str]:
    """The tree, one line per part, in columns; ages where something is on its way."""
    rows = list(_rows(health))
    label = max((len(row.label) + 3 * row.depth for row in rows), default=0)
    state = max((len(row.state) for row in rows), default=0)
    lines = []
    open_above = False
    for row in rows:
        if row.depth == 0:
            open_above = not row.last
            branch = "└─ " if row.last else "├─ "
        else:
            branch = ("│  " if open_above else "   ") + ("└─ " if row.last else "├─ ")
        name = row.label.ljust(label - 3 * row.depth)
        detail = f"{' ' * (state - len(row.state))}  {row.detail}" if row.detail else ""
        lines.append(style.plain(f"{branch}{name}  {style.paint(row.state, _colour(row.state))}{detail}"))
    return lines


def label_of(part: StatusNode, workers: Sequence[str]) -> str:
    """What a part is called: "worker 2 of 4", "app chat"; `workers` are the names of all worker pods."""
    if part.kind == "worker":
        return f"worker {workers.index(part.name) + 1} of {len(workers)}" if part.name in workers else "worker"
    if part.kind == "application":
        return f"app {part.name}"
    if part.kind == "replica":
        return part.name.partition("#")[0]
    return part.kind


def age(since: datetime | None, now: datetime | None) -> str:
    """How long something has been so, or an empty string."""
    if since is None or now is None or now < since:
        return ""
    return format_duration((now - since).total_seconds())


def _rows(health: Health) -> Iterator[Row]:
    workers = [part.name for part in health.parts if part.kind == "worker"]
    groups = list(_folded(health.parts, workers))
    for number, (part, label, more) in enumerate(groups):
        yield _row(0, part, label, more, health.observed_at, number == len(groups) - 1)
        children = list(_folded(part.children, ()))
        for index, (child, name, count) in enumerate(children):
            yield _row(1, child, name, count, health.observed_at, index == len(children) - 1)


def _row(depth: int, part: StatusNode, label: str, count: int, now: datetime | None, last: bool) -> Row:
    waited = age(part.since, now) if part.state not in _WELL and part.kind != "endpoint" else ""
    detail = f"{part.detail}  {waited}".strip() if count == 1 else waited
    return Row(depth, label if count == 1 else f"{label} ×{count}", part.state, detail, last)


def _folded(parts: Sequence[StatusNode], workers: Sequence[str]) -> Iterator[tuple[StatusNode, str, int]]:
    """Parts with their labels; long runs of the same kind and state as one."""
    start = 0
    while start < len(parts):
        end = start
        while end < len(parts) and (parts[end].kind, parts[end].state) == (parts[start].kind, parts[start].state):
            end += 1
        if end - start > FOLD:
            yield parts[start], label_of(parts[start], ()), end - start
        else:
            for part in parts[start:end]:
                yield part, label_of(part, workers), 1
        start = end


def _colour(state: str) -> str:
    return "ok" if state in _WELL else "warning" if state in _MOVING else "error"

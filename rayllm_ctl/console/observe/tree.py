"""The status tree of a service as lines, for `status` and the live display."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from rayllm_ctl.console.style import Printer
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.health import Health, StatusNode, format_count
from rayllm_ctl.model.observed.model_downloads import ModelDownload, format_figures

_HEALTHY_STATES = frozenset({"RUNNING", "Running", "Ready", "HEALTHY", "Active", "Succeeded"})
_MOVING = frozenset(
    {"Pending", "Scheduled", "Pulling", "Creating", "Waiting", "Starting", "STARTING", "DEPLOYING", "UPDATING",
     "NOT_STARTED", "Terminating", "STOPPING", "PENDING_MIGRATION", "RECOVERING", "DELETING", "None", "Removing",
     "Downloading", "Verifying", "Retrying", "Copying"}
)  # fmt: skip

FOLD = 6
"""Nodes of one kind and state, side by side, that are shown one by one; more become one line."""


@dataclass(frozen=True)
class TreeRow:
    """A line of the tree; `branch` is drawn before its label."""

    branch: str
    label: str
    state: str
    detail: str


class Observation(Protocol):
    """Health with a tree: of a service, or of a batch job."""

    @property
    def tree(self) -> tuple[StatusNode, ...]: ...

    @property
    def observed_at(self) -> datetime | None: ...

    @property
    def downloads(self) -> tuple[ModelDownload, ...] | None: ...


def tree_lines(health: Observation, style: Printer) -> list[str]:
    """The tree, one line per node, in columns; with ages of nodes in progress."""
    figures = {one.job: format_figures(one) for one in health.downloads or ()}
    rows = list(_rows(health.tree, "", health.observed_at, figures))
    label = max((len(row.branch) + len(row.label) for row in rows), default=0)
    state = max((len(row.state) for row in rows), default=0)
    lines = []
    for row in rows:
        name = row.label.ljust(label - len(row.branch))
        detail = f"{' ' * (state - len(row.state))}  {row.detail}" if row.detail else ""
        lines.append(f"{row.branch}{name}  {style.paint(row.state, _colour(row.state))}{detail}")
    return lines


def worker_names(nodes: Sequence[StatusNode]) -> tuple[str, ...]:
    """The names of the worker pods among siblings, those of one RayCluster, without those that are being deleted."""
    return tuple(node.name for node in nodes if node.kind == "worker" and node.state != "Terminating")


def label_of(node: StatusNode, workers: Sequence[str]) -> str:
    """The label of a node: "worker 2 of 4", "app chat"; `workers` are the worker pods of the same RayCluster."""
    match node.kind:
        case "worker":
            return f"worker {workers.index(node.name) + 1} of {len(workers)}" if node.name in workers else "worker"
        case "application":
            return f"app {node.name}"
        case "replica":
            return node.name.partition("#")[0]
        case "cluster":
            return f"cluster {node.name}"
        case kind:
            return kind


def format_replicas(health: Health) -> str:
    """The number of running replicas: "1 of 2", or unknown."""
    return format_count(health.replicas_running, health.replicas_wanted) if health.replicas_verified else "unknown"


def age(since: datetime | None, now: datetime | None) -> str:
    """How long a state has lasted, or an empty string."""
    if since is None or now is None or now < since:
        return ""
    return format_duration((now - since).total_seconds())


def _rows(
    nodes: Sequence[StatusNode], indent: str, now: datetime | None, figures: Mapping[str, str]
) -> Iterator[TreeRow]:
    """figures: of downloads, by the names of their nodes."""
    groups = list(_folded(nodes))
    for number, (node, label, count) in enumerate(groups):
        last = number == len(groups) - 1
        waited = age(node.since, now) if node.state not in _HEALTHY_STATES and node.kind != "endpoint" else ""
        told = ": ".join(text for text in (node.detail, figures.get(node.name, "")) if text)
        detail = f"{told}  {waited}".strip() if count == 1 else waited
        yield TreeRow(indent + ("└─ " if last else "├─ "), label, node.state, detail)
        yield from _rows(node.children, indent + ("   " if last else "│  "), now, figures)


def _folded(nodes: Sequence[StatusNode]) -> Iterator[tuple[StatusNode, str, int]]:
    """Nodes with their labels; long runs of the same kind and state as one."""
    workers = worker_names(nodes)
    start = 0
    while start < len(nodes):
        end = start
        while end < len(nodes) and (nodes[end].kind, nodes[end].state) == (nodes[start].kind, nodes[start].state):
            end += 1
        if end - start > FOLD:
            yield nodes[start], f"{label_of(nodes[start], ())} ×{end - start}", end - start
        else:
            for node in nodes[start:end]:
                yield node, label_of(node, workers), 1
        start = end


def _colour(state: str) -> str:
    return "ok" if state in _HEALTHY_STATES else "warning" if state in _MOVING else "error"

"""Display of a command's events: a line per change, or a live tree on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TypeVar

from rayllm_ctl.console.observe.event_line import format_event
from rayllm_ctl.console.observe.live import LiveTree
from rayllm_ctl.console.observe.tree import format_replicas, label_of, worker_names
from rayllm_ctl.console.plan.plan import summary
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Downloading, Event, Observed, Planned
from rayllm_ctl.model.observed.health import Cause, Health, State, StatusNode, format_queue
from rayllm_ctl.model.observed.model_downloads import DownloadState, format_figures

_LABEL = 11
_Key = tuple[str, str, str]
"""The identity of a node: its RayCluster, kind and name."""

_QUIET = frozenset({"StillStarting", "ScaledToZero"})
"""Codes of causes that add nothing to the tree."""


E = TypeVar("E", contravariant=True)


class Progress(Protocol[E]):
    """Draws events on standard error; a context manager, so that the display ends cleanly."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def handle(self, event: E) -> None: ...


def choose_progress(style: Printer, live: bool = True) -> Progress[Event]:
    """A live tree where standard error is a terminal that can move its cursor, else a line per change.

    `live` False: never a tree (in CI, or where the user asked for details).
    """
    if live and style.terminal:
        return LiveTree(style)
    return LinePrinter(style)


class LinePrinter:
    """A line with the time when something becomes true; not repeated while it stays true.

    Nodes are identified by kind and name, not by their position in the tree, which changes when an upgrade begins.
    """

    def __init__(self, style: Printer, clock: Callable[[], datetime] = datetime.now) -> None:
        self._style = style
        self._clock = clock
        self._nodes: dict[_Key, tuple[str, str]] = {}
        self._causes: set[tuple[str, str, str]] = set()
        self._notes: set[str] = set()
        self._jobs: dict[str, tuple[DownloadState, int, int]] = {}
        self._counts = ""
        self._waiting = 0
        self._downloads: dict[str, int] = {}
        self._state: State | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def handle(self, event: Event) -> None:
        """Print the changes in `event`."""
        for label, text in self._lines(event):
            self._style.line(f"{self._clock():%H:%M:%S} {label:<{_LABEL}} {text}".rstrip())

    def _lines(self, event: Event) -> Iterator[tuple[str, str]]:
        if isinstance(event, Planned):
            yield from (("plan" if number == 0 else "", line) for number, line in enumerate(summary(event.plan)))
        elif isinstance(event, Observed):
            yield from self._observed(event.health)
        elif isinstance(event, Downloading):
            yield from self._downloading(event)
        else:
            yield format_event(event, self._style)

    def _observed(self, health: Health) -> Iterator[tuple[str, str]]:
        yield from self._node_lines(health)
        yield from self._download_lines(health)
        counts = f"{format_replicas(health)} running"
        if health.replicas_verified and counts != self._counts and health.replicas_wanted + health.replicas_running > 0:
            self._counts = counts
            yield "replicas", counts
        waiting = health.queue.pending if health.queue else 0
        if health.queue and waiting != self._waiting:
            self._waiting = waiting
            yield "queue", format_queue(health.queue)
        for note in health.notes:
            if _figureless(note) not in self._notes:
                self._notes.add(_figureless(note))
                yield "note", note
        if health.state is State.READY:
            self._causes.clear()  # causes that return after that are new
        for cause in health.causes:
            if cause.code not in _QUIET and _key(cause) not in self._causes:
                self._causes.add(_key(cause))
                yield "cause", f"{cause.code}: {cause.message}"
        if health.state is not self._state:
            self._state = health.state
            # While in progress, the message is the step, which the nodes have shown already.
            shown = health.state is State.PROGRESSING
            yield "state", health.state.value if shown else f"{health.state.value}: {health.message}"

    def _downloading(self, event: Downloading) -> Iterator[tuple[str, str]]:
        """A line for each tenth of a download, and at a change of its state."""
        one = event.download
        seen = (one.state, one.attempt, (one.percent or 0) // 10)
        if self._jobs.get(one.job) != seen:
            self._jobs[one.job] = seen
            yield format_event(event, self._style)

    def _download_lines(self, health: Health) -> Iterator[tuple[str, str]]:
        """A line for each tenth of a download, and one at its end."""
        for one in health.downloads or ():
            before = self._downloads.get(one.job)
            complete = one.state is DownloadState.COMPLETE
            tenth = 10 if complete else (one.percent or 0) // 10
            if tenth == before or (before is None and complete):
                continue
            figures = format_figures(one)
            if complete:
                yield "download", f"{one.model} is complete"
            elif figures and (before is None or tenth > before):
                yield "download", f"{one.model}: {figures}"
            if complete or figures:
                self._downloads[one.job] = tenth

    def _node_lines(self, health: Health) -> Iterator[tuple[str, str]]:
        several = any(node.kind == "cluster" for node in health.tree)
        present = set()
        for node, siblings in _walk(health.tree):
            key = (node.cluster, node.kind, node.name)
            present.add(key)
            seen = (node.state, node.detail)
            nothing_yet = key not in self._nodes and node.kind == "endpoint" and not node.detail
            unread = node.kind == "application" and node.cluster in health.serve_unread
            if nothing_yet or unread or self._nodes.get(key) == seen:
                continue
            self._nodes[key] = seen
            where = f" ({node.cluster})" if several and node.kind in ("worker", "application", "replica") else ""
            yield _column(node), _sentence(node, worker_names(siblings)) + where
        for key in [key for key in self._nodes if key not in present and _is_gone(key, health)]:
            del self._nodes[key]
            _, kind, name = key
            yield "replica" if kind == "replica" else "cluster", f"{kind}/{name} is gone"


def _walk(nodes: Sequence[StatusNode]) -> Iterator[tuple[StatusNode, Sequence[StatusNode]]]:
    """Every node with its siblings, itself included."""
    for node in nodes:
        yield node, nodes
        yield from _walk(node.children)


def _is_gone(key: _Key, health: Health) -> bool:
    """Whether nodes that left the tree have ended. A slow dashboard hides running replicas."""
    cluster, kind, _ = key
    if kind == "download":
        return False
    if kind in ("replica", "application"):
        return cluster not in health.serve_unread
    return kind != "cluster" or not any(node.cluster == cluster for node in health.tree)


def _column(node: StatusNode) -> str:
    return {"application": "serve", "replica": "replica", "endpoint": "endpoint", "download": "download"}.get(
        node.kind, "cluster"
    )


def _sentence(node: StatusNode, workers: Sequence[str]) -> str:
    who = f"{node.cluster}: head" if node.kind == "head" else label_of(node, workers)
    if node.kind == "endpoint":
        return node.detail or "no address"
    if node.kind == "download":
        return f"{node.detail}: {node.state.lower()}"
    state = node.state.lower() if node.state.istitle() else node.state
    comma = "," if node.detail.startswith(("waits", "held", "container")) else ""
    return f"{who} {state}{comma} {node.detail}".rstrip()


def _key(cause: Cause) -> tuple[str, str, str]:
    """The identity of a cause: without figures in its message, such as ages."""
    return cause.code, cause.object, _figureless(cause.message)


def _figureless(text: str) -> str:
    return re.sub(r"\d+", "", text)

"""How a command's events are drawn: a line per change, or a live tree on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from rayllm_ctl.console.eventline import format_event
from rayllm_ctl.console.style import Printer
from rayllm_ctl.console.tree import label_of
from rayllm_ctl.model.events import Event, Observed, Planned
from rayllm_ctl.model.health import Cause, Health, State, StatusNode

_LABEL = 11
_HEAD_POD = re.compile(r"(?P<cluster>.+)-head-[a-z0-9]{5}")
_QUIET = frozenset({"StillStarting", "ScaledToZero"})
"""Codes of causes that tell nothing which the parts do not."""


class Progress(Protocol):
    """Draws events on standard error; a context manager, so that what it draws ends cleanly."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def handle(self, event: Event) -> None: ...


def choose(style: Printer, live: bool = True) -> Progress:
    """A live tree where standard error is a terminal that can move its cursor, else a line per change.

    `live` False: never a tree (in CI, or where the user asked for details).
    """
    if live and style.terminal:
        from rayllm_ctl.console.live import LiveTree

        return LiveTree(style)
    return LinePrinter(style)


class LinePrinter:
    """A line with the time when something becomes true; nothing twice while it stays so."""

    def __init__(self, style: Printer, clock: Callable[[], datetime] = datetime.now) -> None:
        self._style = style
        self._clock = clock
        self._parts: dict[str, tuple[str, str]] = {}
        self._causes: frozenset[tuple[str, str, str]] = frozenset()
        self._counts = ""
        self._state: State | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def handle(self, event: Event) -> None:
        """Print what is new in `event`."""
        for label, text in self._lines(event):
            self._style.line(f"{self._clock():%H:%M:%S} {label:<{_LABEL}} {self._style.plain(text)}".rstrip())

    def _lines(self, event: Event) -> Iterator[tuple[str, str]]:
        if isinstance(event, Planned):
            from rayllm_ctl.console.plan import summary

            yield from (("plan" if number == 0 else "", line) for number, line in enumerate(summary(event.plan)))
        elif isinstance(event, Observed):
            yield from self._observed(event.health)
        else:
            yield format_event(event, self._style)

    def _observed(self, health: Health) -> Iterator[tuple[str, str]]:
        yield from self._part_lines(health)
        counts = f"{health.replicas_running} of {health.replicas_wanted} replicas run"
        if counts != self._counts and health.replicas_wanted + health.replicas_running > 0:
            self._counts = counts
            yield "replicas", counts
        causes = {_key(cause): cause for cause in health.causes if cause.code not in _QUIET}
        for key, cause in causes.items():
            if key not in self._causes:
                yield "cause", f"{cause.code}: {cause.message}"
        self._causes = frozenset(causes)
        if health.state is not self._state:
            self._state = health.state
            # On the way, the message is the step, which the parts have told already.
            told_already = health.state is State.PROGRESSING
            yield "state", health.state.value if told_already else f"{health.state.value}: {health.message}"

    def _part_lines(self, health: Health) -> Iterator[tuple[str, str]]:
        workers = [part.name for part in health.parts if part.kind == "worker"]
        parts = [part for top in health.parts for part in (top, *top.children)]
        for part in parts:
            seen = (part.state, part.detail)
            key = f"{part.kind}/{part.name}"
            unseen = key not in self._parts and part.kind == "endpoint" and not part.detail
            if unseen or self._parts.get(key) == seen:
                continue
            self._parts[key] = seen
            yield _column(part), _sentence(part, workers)
        here = {f"{part.kind}/{part.name}" for part in parts}
        for key in [key for key in self._parts if key not in here]:
            del self._parts[key]
            yield "cluster" if not key.startswith("replica/") else "replica", f"{key} is gone"


def _column(part: StatusNode) -> str:
    return {"application": "serve", "replica": "replica", "endpoint": "endpoint"}.get(part.kind, "cluster")


def _sentence(part: StatusNode, workers: list[str]) -> str:
    head = _HEAD_POD.fullmatch(part.name) if part.kind == "head" else None
    who = f"{head['cluster']}: head" if head else label_of(part, workers)
    if part.kind == "endpoint":
        return part.detail or "no address any more"
    state = part.state.lower() if part.state.istitle() else part.state
    comma = "," if part.detail.startswith(("waits", "held", "container")) else ""
    return f"{who} {state}{comma} {part.detail}".rstrip()


def _key(cause: Cause) -> tuple[str, str, str]:
    """What makes a cause another one: figures in its message, such as ages, do not."""
    return cause.code, cause.object, re.sub(r"\d+", "", cause.message)

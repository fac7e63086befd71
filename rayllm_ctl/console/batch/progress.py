"""Display of a followed batch job: a line per change, or a bar and the pods on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Self

from rayllm_ctl.console.batch.status import COLOURS, bar, percent, row_figures
from rayllm_ctl.console.observe.progress import Progress
from rayllm_ctl.console.observe.tree import age, tree_lines
from rayllm_ctl.console.redrawn import Redrawn
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.batch_events import BatchEnded, BatchEvent, BatchObserved
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome

_LABEL = 11
_QUIET = frozenset({"Retrying", "Suspended"})
"""Codes of causes that add nothing to the state."""

Shown = BatchEvent | Applied


def choose_job_progress(style: Printer, live: bool = True) -> Progress[Shown]:
    """A bar where standard error is a terminal that can move its cursor, else a line per change."""
    return BatchBar(style) if live and style.terminal else BatchLines(style)


class BatchLines:
    """A line with the time for each change; for rows, one per percent."""

    def __init__(self, style: Printer, clock: Callable[[], datetime] = datetime.now) -> None:
        self._style = style
        self._clock = clock
        self._state = ("", "", 0)
        self._percent = 0
        self._causes: set[tuple[str, str]] = set()
        self._notes: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def handle(self, event: Shown) -> None:
        """Print what is new in `event`."""
        lines = self._observed(event.health) if isinstance(event, BatchObserved) else [_line(event)]
        for label, text in lines:
            self._style.line(f"{self._clock():%H:%M:%S} {label:<{_LABEL}} {text}".rstrip())

    def _observed(self, health: BatchHealth) -> Iterator[tuple[str, str]]:
        for note in health.notes:
            if note not in self._notes:
                self._notes.add(note)
                yield "note", note
        done = percent(health.progress) if health.progress else 0
        if done != self._percent and health.result is None:
            self._percent = done
            yield "rows", row_figures(health)
        for cause in health.causes:
            key = cause.code, cause.object
            if cause.code not in _QUIET and key not in self._causes:
                self._causes.add(key)
                yield "cause", f"{cause.code}: {cause.message}"
        state = health.state.value, health.message, health.attempt
        if state != self._state and health.outcome is None:
            again = f" (attempt {health.attempt} of {health.attempts})" if health.attempt > 1 else ""
            yield "state", f"{health.state.value}: {health.message}{again}"
        self._state = state


class BatchBar:
    """A bar with the figures, and the pods below it, which stay on the screen at the end."""

    def __init__(self, style: Printer) -> None:
        self._style = style
        self._redrawn = Redrawn(style, self._render)
        self._event: BatchObserved | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redrawn.stop()

    def handle(self, event: Shown) -> None:
        """Draw `event`: an observation of the job redraws the bar, anything else is a line above or below it."""
        if isinstance(event, BatchObserved):
            self._draw(event)
            return
        if isinstance(event, BatchEnded):
            self._redrawn.stop()
        label, text = _line(event)
        mark = "step"
        if isinstance(event, BatchEnded):
            mark = "ok" if event.outcome is JobOutcome.ANSWERED else "error"
        self._redrawn.print(f"{self._style.symbol(mark)} {label:<{_LABEL}} {text}")

    def _draw(self, event: BatchObserved) -> None:
        self._event = event
        self._redrawn.draw()

    def _render(self) -> str:
        return "\n".join(bar_lines(self._event, self._style)) if self._event else ""


def bar_lines(event: BatchObserved, style: Printer) -> list[str]:
    """State, bar, causes and pods of a followed job."""
    health = event.health
    colour = COLOURS[health.state]
    mark = style.symbol("busy" if colour in ("busy", "dim") else colour)
    took = age(health.started, health.ended or health.observed_at) or format_duration(event.elapsed)
    lines = [f"{mark} {health.state.value.lower():<{_LABEL}} {took}  {health.message}"]
    figures = row_figures(health)
    if figures:
        lines.append(f"  {bar(health)} {figures}")
    for cause in health.causes:
        if cause.code not in _QUIET:
            lines.append(f"  {style.paint(cause.code, 'warning')}  {cause.message}")
    return [*lines, *(f"  {line}" for line in tree_lines(health, style))]


def _line(event: BatchEnded | Noted | Applied) -> tuple[str, str]:
    match event:
        case BatchEnded():
            where = f"; output {event.health.output}" if event.health.output else ""
            verb = "done" if event.outcome is JobOutcome.ANSWERED else "failed"
            took = age(event.health.started, event.health.ended or event.health.observed_at)
            return verb, f"{event.name}{f' after {took}' if took else ''}: {event.health.message}{where}"
        case Noted():
            return "note", event.message
        case Applied():
            return "apply", f"{event.kind.lower()}/{event.name} {event.action}{' (dry run)' if event.dry_run else ''}"

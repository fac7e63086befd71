"""Output of `batch status` and `batch list`: a job with its figures, causes and pods, or a table of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rayllm_ctl.console.observe.status import cause_lines, labelled_text, state_table
from rayllm_ctl.console.observe.tree import age, tree_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.batch_progress import Progress, Result
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobState

_LABEL = 10
_BAR = 30

COLOURS = {
    JobState.SUCCEEDED: "ok",
    JobState.RUNNING: "busy",
    JobState.PENDING: "busy",
    JobState.DELETING: "busy",
    JobState.SUSPENDED: "dim",
    JobState.RETRYING: "warning",
    JobState.STUCK: "warning",
    JobState.UNKNOWN: "warning",
    JobState.FAILED: "error",
    JobState.NOT_FOUND: "error",
}


class JobHealth(Protocol):
    """A line of the table: a job and its health."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def health(self) -> BatchHealth: ...


def job_status(name: str, namespace: str, health: BatchHealth, style: Printer) -> str:
    """The status of one job as text that ends in a newline."""
    waited = age(health.since, health.observed_at)
    state = style.paint(health.state.value, COLOURS[health.state])
    lines = [f"{style.paint(name, 'bold')}  {state}{f'  for {waited}' if waited else ''}  {health.message}".rstrip()]
    for cause in health.causes:
        lines += cause_lines(cause, style)
    for note in health.notes:
        lines += labelled_text("note", note, style, "warning")
    facts = [("rows", row_figures(health)), ("tokens", _tokens(health)), ("output", health.output)]
    if health.ended is not None:
        facts.append(("took", age(health.started, health.ended)))
    if health.attempt > 1:
        facts.append(("attempt", f"{health.attempt} of {health.attempts}"))
    if health.started is not None:
        facts.append(("namespace", namespace))
    lines += [f"  {style.paint(label.ljust(_LABEL), 'dim')}{text}" for label, text in facts if text]
    lines += [f"  {line}" for line in tree_lines(health, style)]
    return "\n".join(lines) + "\n"


def job_table(rows: Sequence[JobHealth], style: Printer, *, namespaces: bool = False, wide: bool = False) -> str:
    """Jobs as a table that ends in a newline; or a line if there are none. wide: with attempts, tokens and output."""
    if not rows:
        return "no batch jobs\n"
    more = ("ATTEMPT", "TOKENS", "OUTPUT") if wide else ()
    header = ("NAME", "STATE", "ROWS", "ERRORS", "RATE", "LEFT", "FOR", *more, "MESSAGE")
    lines = [(row.namespace, _cells(row, wide), COLOURS[row.health.state]) for row in rows]
    return state_table(header, lines, style, namespaces=namespaces)


def row_figures(health: BatchHealth) -> str:
    """Rows done, errors, rate and the time left: "500 of 2,000 (25%) · 3 errors · 12.5 rows/s · 2m00s left"."""
    if health.result is not None:
        return _totals(health.result)
    one = health.progress
    if one is None or not one.rows:
        return ""
    parts = [f"{one.done:,} of {one.rows:,} ({percent(one)}%)"]
    if one.resumed:
        parts.append(f"{one.resumed:,} from before")
    if one.errors:
        parts.append(f"{one.errors:,} errors")
    if one.rows_per_second and health.outcome is None:
        parts.append(f"{_rate(one.rows_per_second)} rows/s")
    if one.eta_seconds is not None and health.outcome is None:
        parts.append(f"{format_duration(one.eta_seconds)} left")
    return " · ".join(parts)


def percent(progress: Progress) -> int:
    """Whole percent of the rows that are done; 100 only when all are."""
    return min(100, 100 * progress.done // progress.rows) if progress.rows else 0


def bar(health: BatchHealth) -> str:
    """Rows done as a bar of fixed width."""
    one = health.progress
    full = _BAR if health.result is not None else _BAR * one.done // one.rows if one is not None and one.rows else 0
    return "█" * min(full, _BAR) + "·" * (_BAR - full)


def _totals(result: Result) -> str:
    parts = [f"{result.answered:,} of {result.rows:,} answered", f"{result.errors:,} errors"]
    if result.resumed:
        parts.append(f"{result.resumed:,} from before")
    return " · ".join([*parts, f"in {format_duration(result.elapsed_seconds)}"])


def _tokens(health: BatchHealth) -> str:
    one = health.result or health.progress
    if one is None or not (one.prompt_tokens or one.completion_tokens):
        return ""
    parts = [f"{one.prompt_tokens:,} in", f"{one.completion_tokens:,} out"]
    if health.result is None and health.progress is not None and health.progress.tokens_per_second:
        parts.append(f"{health.progress.tokens_per_second:,.0f} tokens/s")
    return " · ".join(parts)


def _rate(rows: float) -> str:
    return f"{rows:,.1f}" if rows < 100 else f"{rows:,.0f}"


def _cells(row: JobHealth, wide: bool) -> tuple[str, ...]:
    health, one = row.health, row.health.progress
    done, rows, errors = (one.done, one.rows, one.errors) if one else (0, 0, 0)
    if health.result is not None:
        done, rows, errors = health.result.rows, health.result.rows, health.result.errors
    runs = one is not None and health.outcome is None
    attempt = f"{health.attempt}/{health.attempts}"
    return (
        row.name,
        health.state.value,
        f"{done:,}/{rows:,}" if rows else "-",
        f"{errors:,}" if rows else "-",
        f"{_rate(one.rows_per_second)}/s" if one and runs and one.rows_per_second else "-",
        format_duration(one.eta_seconds) if one and runs and one.eta_seconds is not None else "-",
        age(health.since, health.observed_at) or "-",
        *((attempt, _tokens(health) or "-", health.output or "-") if wide else ()),
        health.message,
    )

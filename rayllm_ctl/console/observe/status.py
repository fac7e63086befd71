"""Output of `status`: a service with its causes, evidence, hints and status tree, or a table of services."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Protocol

from rayllm_ctl.console.observe.tree import age, format_replicas, tree_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.external import Reach, format_external
from rayllm_ctl.model.observed.health import Cause, Health, State, format_queue

WIDTH = 120
_LABEL = 10

_COLOURS = {
    State.READY: "ok",
    State.PROGRESSING: "busy",
    State.SUSPENDED: "dim",
    State.DELETING: "busy",
    State.DEGRADED: "warning",
    State.STUCK: "warning",
    State.UNKNOWN: "warning",
    State.FAILED: "error",
    State.NOT_FOUND: "error",
}
_INFORMATIVE = frozenset({"StillStarting", "ScaledToZero", "Retrying"})
"""Codes of a step or a remark, not of a problem."""


class ServiceHealth(Protocol):
    """A line of the table: a service and its health."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def health(self) -> Health: ...

    @property
    def kind(self) -> str: ...


def service_status(name: str, namespace: str, health: Health, style: Printer) -> str:
    """The status of one service as text that ends in a newline."""
    lines = [_headline(name, health, style)]
    for cause in health.causes:
        lines += cause_lines(cause, style)
    for note in health.notes:
        lines += labelled_text("note", note, style, "warning")
    if health.tree or health.state in (State.READY, State.PROGRESSING, State.DEGRADED):
        counts = f"{_counts(health)} · namespace {namespace}"
        lines.append(f"  {style.paint('service'.ljust(_LABEL), 'dim')}{counts}")
    for address in health.external:
        colour = "dim" if address.state is Reach.READY else "warning"
        lines += labelled_text("external", format_external(address), style, colour)
    lines += [f"  {line}" for line in tree_lines(health, style)]
    return "\n".join(lines) + "\n"


def service_table(
    rows: Sequence[ServiceHealth], style: Printer, *, namespaces: bool = False, wide: bool = False
) -> str:
    """Services as a table that ends in a newline; or a line if there are none.

    namespaces: with a namespace column. wide: with the kind, the most replicas and the queue.
    """
    if not rows:
        return "no services\n"
    more = ("KIND", "MAX-REPLICAS", "WAITING") if wide else ()
    header = ("NAME", "STATE", "REPLICAS", "ENDPOINTS", "EXTERNAL-URL", "FOR", *more, "MESSAGE")
    lines = [(row.namespace, _cells(row, wide), _COLOURS[row.health.state]) for row in rows]
    return state_table(header, lines, style, namespaces=namespaces)


def state_table(
    header: Sequence[str], rows: Iterable[tuple[str, Sequence[str], str]], style: Printer, *, namespaces: bool
) -> str:
    """A table that ends in a newline; each row is its namespace, its cells, and the colour of the second, the state."""
    given = [("NAMESPACE", header, ""), *rows]
    table = [(where, *cells) if namespaces else tuple(cells) for where, cells, _ in given]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = []
    for line, (_, _, colour) in zip(table, given, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        if colour:
            cells[1 + namespaces] = style.paint(cells[1 + namespaces], colour)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _cells(row: ServiceHealth, wide: bool) -> tuple[str, ...]:
    health = row.health
    waiting = "-" if health.queue is None else str(health.queue.pending)
    return (
        row.name,
        health.state.value,
        f"{health.replicas_running}/{health.replicas_wanted}",
        str(health.endpoints),
        _external_url(health),
        age(health.since, health.observed_at),
        *((row.kind, str(health.replicas_max), waiting) if wide else ()),
        health.message,
    )


def _external_url(health: Health) -> str:
    """The first usable URL, or a placeholder like kubectl's for an external IP."""
    ready = [url for address in health.external if address.state is Reach.READY for url in address.urls]
    states = {address.state.value.lower() for address in health.external}
    return ready[0] if ready else f"<{', '.join(sorted(states)) or 'none'}>"


def _headline(name: str, health: Health, style: Printer) -> str:
    waited = age(health.since, health.observed_at)
    state = style.paint(health.state.value, _COLOURS[health.state])
    text = f"{style.paint(name, 'bold')}  {state}{f'  for {waited}' if waited else ''}  {health.message}"
    return text.rstrip()


def cause_lines(cause: Cause, style: Printer) -> list[str]:
    """A cause with its evidence and hints."""
    informative = cause.code in _INFORMATIVE
    lines = []
    if not informative:
        first = f"{cause.code}  {cause.message}"
        lines += labelled_text("cause", first, style, "error" if cause.terminal else "warning")
    for number, line in enumerate(cause.evidence):
        lines += labelled_text("evidence" if number == 0 else "", line, style, "dim")
    for number, hint in enumerate(cause.hint):
        # A hint is a command to copy: it is never wrapped.
        label = style.paint(("hint" if number == 0 else "").ljust(_LABEL), "step")
        lines.append(f"  {label}{hint}")
    return lines


def labelled_text(label: str, text: str, style: Printer, colour: str) -> list[str]:
    """Text beside a label, wrapped below itself."""
    wrapped = textwrap.wrap(text, style.width(WIDTH) - 2 - _LABEL, break_long_words=False, break_on_hyphens=False)
    marks = [label, *[""] * (len(wrapped) - 1)]
    return [f"  {style.paint(mark.ljust(_LABEL), colour)}{line}" for mark, line in zip(marks, wrapped, strict=True)]


def _counts(health: Health) -> str:
    autoscaled = health.replicas_verified and health.replicas_max > health.replicas_wanted
    most = f" (at most {health.replicas_max})" if autoscaled else ""
    addresses = f"{health.endpoints} address{'' if health.endpoints == 1 else 'es'}"
    behind = addresses if health.endpoints else "no endpoint"
    queue = f" · {format_queue(health.queue)}" if health.queue else ""
    return f"replicas {format_replicas(health)}{most} · {behind}{queue}"

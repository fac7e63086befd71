"""Events for people: repeated ones as one, with the cause that was concluded from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rayllm_ctl.health.objects.events import EventLog
from rayllm_ctl.model.observed.health import Cause, Object
from rayllm_ctl.model.observed.service_events import ServiceEvent

_QUOTED = 500
"""Characters of an event that a cause quotes at least."""


def explained_events(items: Iterable[Object], causes: Sequence[Cause]) -> list[ServiceEvent]:
    """Events of one namespace, oldest first. Those with the same object, reason and message are one."""
    by_quote = {quote: cause for cause in reversed(causes) for text in cause.evidence for quote in _quotes(text)}
    found: dict[tuple[str, str, str], ServiceEvent] = {}
    for event in EventLog(items):
        cause = by_quote.get(event.quoted()[:_QUOTED])
        message = " ".join(event.message.split())
        key = (event.subject, event.reason, message)
        before = found.pop(key, None)
        row = ServiceEvent(
            event.subject, event.reason, message, event.warning, event.count, event.first, event.last,
            cause.code if cause else None, cause.message if cause else None,
        )  # fmt: skip
        found[key] = _together(before, row) if before else row
    return list(found.values())


def _quotes(evidence: str) -> Iterator[str]:
    """The event that a line of evidence quotes, which may stand behind its object."""
    start = 0 if evidence.startswith("event ") else evidence.find(": event ") + 2
    if start != 1:
        yield evidence[start : start + _QUOTED]


def _together(before: ServiceEvent, row: ServiceEvent) -> ServiceEvent:
    return dataclasses.replace(
        row,
        count=before.count + row.count,
        first=_earliest(before.first, row.first),
        cause=row.cause or before.cause,
        explanation=row.explanation or before.explanation,
    )


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)

"""Kubernetes events as lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rayllm_ctl.console.observe.tree import age
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.service_events import ServiceEvent

_AGE = 6


class EventLines:
    """Lines whose columns stay where they are: each is as wide as the widest text so far."""

    def __init__(self, style: Printer) -> None:
        self._style = style
        self._object = self._reason = 0

    def lines(self, events: Sequence[ServiceEvent], now: datetime) -> list[str]:
        """A line per event: age, object, reason with its count, and the cause if there is one, else the message."""
        reasons = [f"{one.reason} ×{one.count}" if one.count > 1 else one.reason for one in events]
        self._object = max(self._object, *(len(one.object) for one in events), 0)
        self._reason = max(self._reason, *map(len, reasons), 0)
        return [self._line(one, reason, now) for one, reason in zip(events, reasons, strict=True)]

    def _line(self, event: ServiceEvent, reason: str, now: datetime) -> str:
        padded = reason.ljust(self._reason)
        shown = self._style.paint(padded, "warning") if event.warning else padded
        text = f"{event.cause}: {event.explanation}" if event.cause else event.message
        return f"{age(event.last, now) or '0s':<{_AGE}}  {event.object:<{self._object}}  {shown}  {text}".rstrip()

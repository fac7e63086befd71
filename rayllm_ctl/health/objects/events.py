"""Events of both APIs (core/v1 and events.k8s.io/v1) as one list, and what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

ONGOING = 330.0
"""Seconds for which an event stands for something that persists. After 25 events about one object, client-go's spam
filter lets only one in 300 s through (EventSourceObjectSpamFilter), however often the thing happens."""

COMBINED = "(combined from similar events): "
"""What the API machinery puts before a message after about nine events of one reason."""


_NANOSECONDS = re.compile(r"\.([0-9a-f]{15,16})$")


@dataclass(frozen=True)
class ObjectEvent:
    """One event: about `kind`/`name`, between `first` and `last`, seen `count` times.

    `order`: seconds since 1970 by which events are sorted; finer than `last`, which most writers cut to seconds.
    """

    kind: str
    name: str
    reason: str
    message: str
    warning: bool
    first: datetime | None
    last: datetime | None
    count: int
    order: float = 0.0

    @property
    def subject(self) -> str:
        return f"{self.kind.lower()}/{self.name}"

    def quoted(self) -> str:
        """The event as evidence: time, reason, count and message on one line."""
        time = f"{self.last:%H:%M:%S} " if self.last else ""
        times = f" (×{self.count})" if self.count > 1 else ""
        return f"event {time}{self.reason}{times}: {' '.join(self.message.split())}"


def read_event(item: Object) -> ObjectEvent:
    """An event of either API; core/v1 events of the scheduler have no first and last time, only an eventTime."""
    about = fields.mapping(item, "involvedObject") or fields.mapping(item, "regarding")
    instant = fields.when(item, "eventTime")
    made = fields.created(item)
    first = fields.when(item, "firstTimestamp") or fields.when(item, "deprecatedFirstTimestamp") or instant or made
    last = (
        fields.when(item, "series", "lastObservedTime")
        or fields.when(item, "lastTimestamp")
        or fields.when(item, "deprecatedLastTimestamp")
        or first
    )
    message = fields.text(item, "message") or fields.text(item, "note")
    count = max(
        1,
        fields.integer(item, "count"),
        fields.integer(item, "deprecatedCount"),
        fields.integer(item, "series", "count"),
    )
    return ObjectEvent(
        kind=fields.text(about, "kind"),
        name=fields.text(about, "name"),
        reason=fields.text(item, "reason"),
        message=message.removeprefix(COMBINED),
        warning=item.get("type") == "Warning",
        first=first,
        last=last,
        count=count,
        order=_order(fields.name(item), last),
    )


def _order(name: str, last: datetime | None) -> float:
    """When an event was last seen, as finely as it can be known.

    The scheduler writes microseconds, the kubelet and KubeRay whole seconds: by these alone "Pulled" would come before
    the "Scheduled" of the same second, at each start. But both name an event after the nanosecond of its first time
    (client-go, tools/record/util.GenerateEventName).
    """
    if last is None:
        return 0.0
    seconds = last.timestamp()
    named = _NANOSECONDS.search(name)
    first = int(named[1], 16) / 1e9 if named else 0.0
    return first if int(first) == int(seconds) else seconds


class EventLog:
    """The events of one namespace, oldest first, without the copies that the second API shows of the first's."""

    def __init__(self, objects: Iterable[Object]) -> None:
        seen: dict[tuple[str, str, str, str], ObjectEvent] = {}
        for item in objects:
            event = read_event(item)
            # The same event has the same name in both APIs; its time stamps may be cut to seconds in one of them.
            key = (fields.name(item), event.reason, event.message, event.name)
            if key not in seen or event.count > seen[key].count:
                seen[key] = event
        undated = [event for event in seen.values() if event.last is None]
        dated = [event for event in seen.values() if event.last is not None]
        self._events = (*undated, *sorted(dated, key=lambda event: event.order))
        self._by_subject: dict[tuple[str, str], list[ObjectEvent]] = {}
        for event in self._events:
            self._by_subject.setdefault((event.kind, event.name), []).append(event)

    def __iter__(self) -> Iterator[ObjectEvent]:
        return iter(self._events)

    def of(self, kind: str, name: str, *reasons: str) -> list[ObjectEvent]:
        """The events about an object, oldest first; only those of `reasons`, if any are given."""
        found = self._by_subject.get((kind, name), [])
        return [event for event in found if not reasons or event.reason in reasons]

    def last(self, kind: str, name: str, *reasons: str) -> ObjectEvent | None:
        """The newest event about an object."""
        found = self.of(kind, name, *reasons)
        return found[-1] if found else None

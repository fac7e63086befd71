"""Events for people: folded, in order, and with the cause that quotes them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.health.eventlist import explained_events
from rayllm_ctl.health.objects.events import read_event
from rayllm_ctl.model.observed.health import Cause


def event(name: str, message: str, minute: int, about: str = "pod-1", **more: Any) -> dict[str, Any]:
    moment = f"2026-03-01T12:{minute:02d}:00Z"
    times = {"firstTimestamp": moment, "lastTimestamp": moment, "type": "Warning", "reason": "Failed"}
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": about},
        "message": message,
        **times,
        **more,
    }


def test_repeated_events_are_one_where_the_last_was() -> None:
    found = explained_events([event("a", "x", 1, count=2), event("b", "y", 2), event("c", "x", 3, count=3)], ())
    assert [(one.message, one.count) for one in found] == [("y", 1), ("x", 5)]
    assert (found[1].first, found[1].last) == (read_event(event("a", "x", 1)).last, read_event(event("c", "x", 3)).last)


def test_events_of_other_objects_or_reasons_are_not_folded() -> None:
    items = [event("a", "x", 1), event("b", "x", 2, about="pod-2"), event("c", "x", 3, reason="BackOff")]
    assert [one.count for one in explained_events(items, ())] == [1, 1, 1]


def test_the_first_cause_that_quotes_an_event_explains_it_however_long_it_is() -> None:
    item = event("a", "x" * 900, 1)
    quoted = read_event(item).quoted()
    other = Cause("Other", "pod/pod-1", "no quote", (f"12:00 {quoted}",))
    cut = Cause("Cut", "pod/pod-1", "it is long", (quoted[:500],))
    behind = Cause("Behind", "pod/pod-1", "it stands behind its object", (f"pod/pod-1: {quoted}",))
    for causes, code in (((other, cut, behind), "Cut"), ((behind, cut), "Behind"), ((other,), None)):
        assert explained_events([item], causes)[0].cause == code


def test_events_of_one_second_are_in_the_order_in_which_they_came() -> None:
    """As recorded: the scheduler writes microseconds, the kubelet and KubeRay cut to seconds; names have both."""
    second = 1772366880  # 2026-03-01T12:08:00Z
    cut: dict[str, Any] = {"firstTimestamp": "2026-03-01T12:08:00Z", "lastTimestamp": "2026-03-01T12:08:00Z"}
    fine: dict[str, Any] = {"firstTimestamp": None, "lastTimestamp": None, "eventTime": "2026-03-01T12:08:00.505078Z"}

    def named(offset: float, reason: str, times: dict[str, Any], about: str = "pod-1") -> dict[str, Any]:
        return event(
            f"{about}.{int((second + offset) * 1e9):x}", reason, 8, about, reason=reason, type="Normal", **times
        )

    items = [
        named(0.61, "Pulled", cut),
        named(0.83, "Started", cut),
        named(0.51, "Scheduled", fine),
        named(0.2, "CreatedWorkerPod", cut, "cluster"),
        event("pod-1.of-another-writer", "Later", 9, reason="Later"),
    ]
    found = [one.reason for one in explained_events(items, ())]
    assert found == ["CreatedWorkerPod", "Scheduled", "Pulled", "Started", "Later"]

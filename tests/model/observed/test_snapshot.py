"""A Snapshot: how its objects are looked up."""

from __future__ import annotations

from datetime import UTC, datetime

from rayllm_ctl.model.observed.health import Snapshot

FIRST = {"kind": "Pod", "metadata": {"name": "a", "namespace": "llm"}}
SERVICE = {"kind": "Service", "metadata": {"name": "a", "namespace": "llm"}}
SECOND = {"kind": "Pod", "metadata": {"name": "a", "namespace": "other"}}
BARE = {"kind": "Pod"}
SNAPSHOT = Snapshot((FIRST, SERVICE, SECOND, BARE), datetime(2026, 11, 25, tzinfo=UTC))


def test_objects_of_kinds_keep_their_order() -> None:
    assert SNAPSHOT.of_kind("Pod") == [FIRST, SECOND, BARE]
    assert SNAPSHOT.of_kind("Service", "Pod") == [FIRST, SERVICE, SECOND, BARE]
    assert SNAPSHOT.of_kind("Node") == []


def test_an_object_is_found_by_kind_and_name() -> None:
    assert SNAPSHOT.find("Service", "a") is SERVICE
    assert SNAPSHOT.find("Pod", "a") is FIRST
    assert SNAPSHOT.find("Pod", "a", "other") is SECOND
    assert SNAPSHOT.find("Pod", "b") is None
    assert SNAPSHOT.find("Pod", "a", "third") is None

"""An interrupted watch: what it told is unknown after a while, and nothing is written while it may come back."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.controller.caches import STALE_SECONDS
from rayllm_ctl.controller.types import Key
from tests.controller.conftest import Controlled

TINY = Key("LLMService", "llm", "tiny")
WHY = "cannot watch pods: the proxy cut the connection"


class Watching:
    """A watch of which a test says how it is."""

    def __init__(self, namespace: str | None = None) -> None:
        self.namespace = namespace
        self.interrupted: dict[str, str] = {}
        self.connected = True


@pytest.fixture
def watching(controlled: Controlled) -> Watching:
    """The watch below a service that is Ready, with two replicas."""
    controlled.put()
    controlled.step()
    controlled.run()
    controlled.step()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
    return taken_over(controlled)


def taken_over(controlled: Controlled, namespace: str | None = None) -> Watching:
    found = Watching(namespace)
    caches: Any = controlled.caches
    caches._watches, caches._synced = [found], True
    controlled.look()
    controlled.marked.clear()
    controlled.writes()
    return found


def after(controlled: Controlled, *seconds: float) -> list[Key]:
    """The keys of which the caches tell at these times."""
    controlled.marked.clear()
    for one in seconds:
        controlled.caches.look_for_gaps(one)
    return list(controlled.marked)


def test_what_a_watch_told_is_unknown_after_a_while(controlled: Controlled, watching: Watching) -> None:
    watching.interrupted = {"Pod": WHY}
    assert after(controlled, 0.0, STALE_SECONDS - 1) == []
    assert controlled.caches.gap(TINY) == ""
    assert after(controlled, STALE_SECONDS) == [TINY]
    assert controlled.step() is None
    for type_ in ("ClusterReady", "ModelsReady", "Ready"):
        assert controlled.condition(type_)[:2] == ("Unknown", "Unknown"), type_
    message = controlled.condition("Ready")[2]
    assert message.startswith("Pod could not be watched since ")
    assert message.endswith(f"Z: {WHY}")
    assert controlled.condition("Applied")[0] == "True"
    assert controlled.condition("Reconciling")[0] == "False"
    assert controlled.status()["replicasText"] == "1/1", "what was seen last"


def test_it_is_told_once(controlled: Controlled, watching: Watching) -> None:
    watching.interrupted = {"Pod": WHY}
    after(controlled, 0.0, STALE_SECONDS)
    controlled.step()
    controlled.writes()
    watching.interrupted = {"Pod": "cannot list pods: 503", "EndpointSlice": "the watch has ended"}
    assert after(controlled, STALE_SECONDS + 1, 10 * STALE_SECONDS) == []
    controlled.step()
    assert controlled.writes() == []


def test_a_watch_that_is_back_makes_it_known_again(controlled: Controlled, watching: Watching) -> None:
    watching.interrupted = {"Pod": WHY}
    after(controlled, 0.0, STALE_SECONDS)
    controlled.step()
    watching.interrupted = {}
    assert after(controlled, STALE_SECONDS + 1) == [TINY]
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"


def test_a_short_interruption_writes_nothing(controlled: Controlled, watching: Watching) -> None:
    for begun in (0.0, 100.0):
        watching.interrupted = {"Pod": WHY}
        assert after(controlled, begun, begun + STALE_SECONDS - 1) == []
        watching.interrupted = {}
        assert after(controlled, begun + STALE_SECONDS) == []
    assert controlled.writes() == []


def test_while_the_api_server_is_gone_the_time_does_not_count(controlled: Controlled, watching: Watching) -> None:
    """Nothing can be written then; when it is back, one watch is there a moment before the next."""
    watching.interrupted, watching.connected = {"Pod": WHY, "RayService": WHY}, False
    assert after(controlled, 0.0, 10 * STALE_SECONDS) == []
    watching.interrupted, watching.connected = {"Pod": WHY}, True
    assert after(controlled, 10 * STALE_SECONDS + 1, 10 * STALE_SECONDS + 2) == []
    assert after(controlled, 11 * STALE_SECONDS + 1) == [TINY]


def test_what_became_unknown_stays_so_while_the_api_server_is_gone(controlled: Controlled, watching: Watching) -> None:
    watching.interrupted = {"Pod": WHY}
    after(controlled, 0.0, STALE_SECONDS)
    watching.connected = False
    assert after(controlled, STALE_SECONDS + 1) == []
    assert "Pod could not be watched" in controlled.caches.gap(TINY)


@pytest.mark.usefixtures("watching")
def test_kinds_that_do_not_tell_how_a_service_is_do_not_count(controlled: Controlled) -> None:
    found = taken_over(controlled)
    found.interrupted = {"Ingress": WHY}
    assert after(controlled, 0.0, STALE_SECONDS) == []


@pytest.mark.usefixtures("watching")
def test_services_of_other_namespaces_are_known(controlled: Controlled) -> None:
    found = taken_over(controlled, "other")
    found.interrupted = {"Pod": WHY}
    assert after(controlled, 0.0, STALE_SECONDS) == []
    assert controlled.caches.gap(TINY) == ""
    assert "Pod could not be watched" in controlled.caches.gap(Key("LLMService", "other", "tiny"))

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api import follower as module
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.follower import KindFollower, Subscription
from rayllm_ctl.cluster.api.watch import Watch
from tests.clock import Clock
from tests.cluster.fakeapi import FakeAPI, status

FORBIDDEN = status(403, 'User "a" cannot watch resource "pods" in API group "" in the namespace "llm"', "Forbidden")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACK_OFF", (0.01, 0.05))


def watch(cluster: Cluster, kinds: list[str], namespace: str, labels: str = "", fields: str = "") -> Watch:
    changes = Watch(cluster, namespace)
    changes.follow([Subscription(kind, labels, fields) for kind in kinds])
    return changes


def eventually(holds: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def pod(api: FakeAPI, name: str, **more: object) -> None:
    api.put(kind="Pod", metadata={"name": name, "labels": {"ray.io/cluster": "c"}}, **more)


def seen(changes: Watch, number: int) -> list[str]:
    """The next `number` changes as `TYPE kind/name`."""
    found: list[str] = []
    while len(found) < number:
        assert changes.wait(5), f"only {found}"
        found += [f"{c.type} {c.object['kind']}/{c.object['metadata']['name']}" for c in changes.drain()]
    return found


def test_what_is_there_is_reported_as_added_then_what_changes(api: FakeAPI, cluster: Cluster) -> None:
    pod(api, "a")
    with watch(cluster, ["Pod"], "llm") as changes:
        assert seen(changes, 1) == ["ADDED Pod/a"]
        pod(api, "b")
        pod(api, "a", status={"phase": "Running"})
        api.remove("Pod", "b")
        assert seen(changes, 3) == ["ADDED Pod/b", "MODIFIED Pod/a", "DELETED Pod/b"]


def test_several_kinds_are_merged(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod", "RayCluster"], "llm") as changes:
        eventually(lambda: api.watching() == 2)
        pod(api, "a")
        api.put(kind="RayCluster", metadata={"name": "c"})
        assert sorted(seen(changes, 2)) == ["ADDED Pod/a", "ADDED RayCluster/c"]


def test_selectors_are_sent_to_list_and_watch(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm", "ray.io/cluster=c", "metadata.name=a"):
        eventually(lambda: api.watching() == 1)
    listed, watched = api.requests
    for request in (listed, watched):
        assert request.query["labelSelector"] == "ray.io/cluster=c"
        assert request.query["fieldSelector"] == "metadata.name=a"
    assert watched.query["allowWatchBookmarks"] == "true"
    assert int(watched.query["timeoutSeconds"]) > 0


@pytest.mark.parametrize("end", [None, b""], ids=["cut", "ended by the server"])
def test_a_round_that_ends_goes_on_from_the_newest_version(api: FakeAPI, cluster: Cluster, end: bytes | None) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]
        api.bookmark()
        version = str(api._version)
        api.send(end)
        eventually(lambda: api.count("GET", "pods") == 3)
        assert api.requests[-1].query["resourceVersion"] == version
        pod(api, "b")
        assert seen(changes, 1) == ["ADDED Pod/b"]
    assert sum("watch" not in request.query for request in api.requests) == 1


def test_events_during_a_broken_connection_are_not_lost(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", (0, b""), times=4)
        api.send(b'{"type": "ADDED", "object": {"metadata": {"name": "cut')
        api.send(None)
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]


def test_a_version_that_is_too_old_lists_again_and_reports_the_difference(api: FakeAPI, cluster: Cluster) -> None:
    for name in "abc":
        pod(api, name)
    with watch(cluster, ["Pod"], "llm") as changes:
        assert len(seen(changes, 3)) == 3
        eventually(lambda: api.watching() == 1)
        watchers, api._watchers = api._watchers, []
        pod(api, "a", status={"phase": "Running"})
        api.remove("Pod", "b")
        pod(api, "d")
        api.oldest = api._version
        watchers[0][2].put({"type": "ERROR", "object": status(410, "too old resource version", "Expired")[1]})
        assert sorted(seen(changes, 3)) == ["ADDED Pod/d", "DELETED Pod/b", "MODIFIED Pod/a"]


def test_410_as_an_http_status_lists_again(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", lambda r: status(410, "gone", "Expired") if "watch" in r.query else None, times=1)
        api.send(None)
        eventually(lambda: api.count("GET", "pods") == 5)
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]


def test_a_server_that_restarts_is_waited_for_and_named_meanwhile(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", status(503, "apiserver is starting", "ServiceUnavailable"), times=3)
        api.send(None)
        eventually(lambda: "apiserver is starting" in str(changes.trouble))
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]
        assert changes.trouble is None


def test_kinds_whose_watch_is_interrupted_are_named(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod", "RayCluster"], "llm") as changes:
        eventually(lambda: api.watching() == 2)
        eventually(lambda: changes.connected)
        assert changes.interrupted == {}
        broken = threading.Event()
        broken.set()
        refused = status(503, "no pods today", "ServiceUnavailable")
        api.answer("GET", "pods", lambda _: refused if broken.is_set() else None)
        api.send(None)
        eventually(lambda: "no pods today" in str(changes.interrupted.get("Pod")))
        eventually(lambda: set(changes.interrupted) == {"Pod"})
        assert changes.connected
        broken.clear()
        eventually(lambda: changes.interrupted == {})


def test_a_kind_that_was_never_listed_is_not_interrupted(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "pods", status(503, "no pods today", "ServiceUnavailable"))
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: "no pods today" in str(changes.trouble))
        assert (changes.interrupted, changes.connected, changes.synced) == ({}, False, False)


def test_a_restarted_server_may_refuse_for_a_while(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", FORBIDDEN, times=3)
        api.send(None)
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]


def test_a_right_that_is_taken_away_ends_it(api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.1)
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", FORBIDDEN)
        api.send(None)
        with pytest.raises(ForbiddenError):
            changes.wait(5)


def test_a_right_that_is_missing_from_the_start_ends_it_at_once(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "pods", FORBIDDEN)
    with watch(cluster, ["RayCluster", "Pod"], "llm") as changes, pytest.raises(ForbiddenError):
        changes.wait(5)


def test_a_kind_that_is_not_installed_ends_it_at_once(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService"}
    with watch(cluster, ["RayService"], "llm") as changes, pytest.raises(NotFoundError):
        changes.wait(5)


def test_lines_that_are_no_events_are_trouble_not_the_end(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        api.send(b"<html>\n")
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]


def test_a_silent_connection_is_replaced(api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.1)
    with watch(cluster, ["Pod"], "llm"):
        eventually(lambda: api.count("GET", "pods") >= 4)
    assert sum("watch" not in request.query for request in api.requests) == 1


def test_a_watch_that_ends_at_once_again_and_again_is_not_hammered(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    enough = threading.Event()

    class Stopped(threading.Event):
        """Pauses take no time, and the last one lasts until the watch is closed."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            if len(pauses) < 6:
                return False
            enough.set()
            return super().wait(10)

    start = KindFollower.start

    def start_noted(follower: KindFollower) -> None:
        follower._stopped = Stopped()
        start(follower)

    monkeypatch.setattr(KindFollower, "start", start_noted)
    monkeypatch.setattr(module, "BACK_OFF", (0.1, 1.0))
    monkeypatch.setattr(module, "time", Clock())
    api.answer("GET", "pods", lambda request: (200, b"") if "watch" in request.query else None)
    with watch(cluster, ["Pod"], "llm"):
        assert enough.wait(10)
    most = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, most, strict=True))
    assert api.count("GET", "pods") == 7, "a list, and a watch before each pause"


def test_objects_are_those_of_the_newest_changes_which_are_then_known(api: FakeAPI, cluster: Cluster) -> None:
    pod(api, "a", status={"phase": "Pending"})
    api.put(kind="Pod", metadata={"name": "other"})
    pods = Subscription("Pod", "ray.io/cluster=c")
    with watch(cluster, ["Pod"], "llm", "ray.io/cluster=c") as changes:
        assert phases(changes, pods) == {"a": "Pending"}
        assert changes.drain() == []
        pod(api, "a", status={"phase": "Running"})
        pod(api, "b")
        assert changes.wait(5)
        eventually(lambda: phases(changes, pods) == {"a": "Running", "b": None})
        assert changes.drain() == []
        api.remove("Pod", "a")
        assert changes.wait(5)
        assert phases(changes, pods) == {"b": None}
        pod(api, "a")
        assert changes.wait(5)
        assert phases(changes, pods) == {"a": None, "b": None}
    assert api.count("GET", "pods") == 2


def phases(changes: Watch, pods: Subscription) -> dict[str, str | None]:
    found = changes.objects(pods)
    assert found is not None
    return {item["metadata"]["name"]: (item.get("status") or {}).get("phase") for item in found}


def test_objects_are_kept_without_managed_fields(api: FakeAPI, cluster: Cluster) -> None:
    managed = [{"manager": "x"}]
    api.put(kind="Pod", metadata={"name": "listed", "managedFields": managed})
    with watch(cluster, ["Pod"], "llm") as changes:
        assert [item["metadata"]["name"] for item in changes.objects(Subscription("Pod")) or ()] == ["listed"]
        api.put(kind="Pod", metadata={"name": "watched", "managedFields": managed})
        assert changes.wait(5)
        found = changes.objects(Subscription("Pod")) or []
        assert [(item["metadata"]["name"], item["metadata"].get("managedFields")) for item in found] == [
            ("listed", None), ("watched", None),
        ]  # fmt: skip


def test_objects_of_an_interrupted_watch_are_not_told(api: FakeAPI, cluster: Cluster) -> None:
    """Until it continues: then they are as they are by then, what was deleted and created again meanwhile included."""
    pods = Subscription("Pod")
    pod(api, "a", status={"phase": "Pending"})
    with watch(cluster, ["Pod"], "llm") as changes:
        assert phases(changes, pods) == {"a": "Pending"}
        eventually(lambda: api.watching() == 1)
        api.answer("GET", "pods", status(503, "apiserver is starting", "ServiceUnavailable"), times=10)
        api.send(None)
        eventually(lambda: changes.objects(pods) is None)
        api.remove("Pod", "a")
        pod(api, "a", status={"phase": "Running"})
        api.oldest = api._version
        eventually(lambda: changes.objects(pods) is not None and phases(changes, pods) == {"a": "Running"})


def test_objects_that_cannot_be_listed_or_are_not_followed_are_not_told(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "pods", FORBIDDEN)
    with watch(cluster, ["Pod"], "llm") as changes:
        assert changes.objects(Subscription("Pod")) is None
        assert changes.objects(Subscription("RayCluster")) is None


def test_watches_can_be_opened_anew(api: FakeAPI, cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        eventually(lambda: api.watching() == 1)
        pod(api, "a")
        assert seen(changes, 1) == ["ADDED Pod/a"]
        changes.reconnect()
        eventually(lambda: api.count("GET", "pods") == 3)
        pod(api, "b")
        assert seen(changes, 1) == ["ADDED Pod/b"]


def test_waiting_ends_when_nothing_changes(cluster: Cluster) -> None:
    with watch(cluster, ["Pod"], "llm") as changes:
        assert not changes.wait(0.05)
        assert changes.drain() == []


def test_closing_waits_for_nothing_and_ends_the_threads(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = watch(cluster, ["Pod", "RayCluster", "RayService"], "llm")
    eventually(lambda: api.watching() == 3)
    disconnect, may_close, closed = changes._disconnect, threading.Event(), threading.Event()

    def close_connections() -> None:
        may_close.wait(10)
        disconnect()
        closed.set()

    monkeypatch.setattr(changes, "_disconnect", close_connections)
    changes.close()
    assert not closed.is_set()
    assert api.watching() == 3
    may_close.set()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("watch-")])


def test_a_changed_subscription_replaces_the_old_one_and_keeps_the_rest(api: FakeAPI, cluster: Cluster) -> None:
    service, old, new = (
        Subscription("RayService"),
        Subscription("Pod", "ray.io/cluster=c"),
        Subscription("Pod", "app=d"),
    )
    with Watch(cluster, "llm") as changes:
        changes.follow([service, old])
        eventually(lambda: api.watching() == 2)
        changes.follow([service, new])
        pod(api, "a")
        api.put(kind="Pod", metadata={"name": "b", "labels": {"app": "d"}})
        assert seen(changes, 1) == ["ADDED Pod/b"]
        eventually(lambda: api.watching() == 2)
    assert api.count("GET", "rayservices") == 2

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ApiError
from rayllm_ctl.cluster.apply import bounds
from rayllm_ctl.cluster.apply.bounds import keep_propagating, propagate_bounds
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied
from tests.cluster.fakeapi import FakeAPI, Request, status


def group(name: str = "gpu", **bounds: int) -> dict[str, Any]:
    return {"groupName": name, "template": {"spec": {}}, **bounds}


def applied(api: FakeAPI, *groups: dict[str, Any], active: str = "tiny-aaaaa", pending: str = "") -> dict[str, Any]:
    """A RayService as an apply stored it, with the RayClusters that its status names."""
    config = {"enableInTreeAutoscaling": True, "workerGroupSpecs": list(groups)}
    status = {"activeServiceStatus": {"rayClusterName": active}, "pendingServiceStatus": {"rayClusterName": pending}}
    item = api.put(kind="RayService", metadata={"name": "tiny"}, spec={"rayClusterConfig": config}, status=status)
    return api.put(**{**item, "status": {**status, "observedGeneration": item["metadata"]["generation"]}})


def live(api: FakeAPI, name: str, *groups: dict[str, Any]) -> None:
    api.put(kind="RayCluster", metadata={"name": name}, spec={"workerGroupSpecs": list(groups)})


def groups_of(api: FakeAPI, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.stored("RayCluster", name)["spec"]["workerGroupSpecs"]
    return found


ACTIVE = ("tiny-aaaaa",)


def test_changed_bounds_reach_the_cluster_that_stays(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(minReplicas=1, maxReplicas=2))
    live(api, "tiny-bbbbb", group(minReplicas=1, maxReplicas=2))
    stored = applied(api, group(minReplicas=1, maxReplicas=5), active="tiny-aaaaa", pending="tiny-bbbbb")
    done, left = propagate_bounds(cluster, ("tiny-bbbbb",), stored)
    assert left == {}
    assert done == [Applied("RayCluster", "tiny-bbbbb", "llm", "configured")]
    assert groups_of(api, "tiny-bbbbb") == [group(minReplicas=1, maxReplicas=5)]
    assert groups_of(api, "tiny-aaaaa") == [group(minReplicas=1, maxReplicas=2)]


def test_which_cluster_stays_is_known_once_kuberay_has_looked(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "POLL_SECONDS", 0.01)
    for name in ("tiny-aaaaa", "tiny-bbbbb"):
        live(api, name, group(minReplicas=1, maxReplicas=1))
    stored = applied(api, group(minReplicas=2, maxReplicas=2))
    status = {**stored["status"], "observedGeneration": stored["metadata"]["generation"] - 1}
    api.put(**{**stored, "status": status})
    looks = iter([None, None, "observed"])
    written = threading.Event()

    def look(_request: Request) -> None:
        if next(looks, None) == "observed":
            pending = {"pendingServiceStatus": {"rayClusterName": "tiny-bbbbb"}}
            seen = api.stored("RayService", "tiny")
            now = {"observedGeneration": seen["metadata"]["generation"]}
            api.put(**{**seen, "status": {**status, **pending, **now}})

    api.answer("GET", "/rayservices/tiny$", look)
    api.answer("PATCH", "/rayclusters/", lambda _request: written.set())
    with keep_propagating(cluster, RAY_SERVICE, stored) as changed:
        assert written.wait(5)
    assert changed == [Applied("RayCluster", "tiny-bbbbb", "llm", "configured")]
    assert groups_of(api, "tiny-aaaaa") == [group(minReplicas=1, maxReplicas=1)]


def test_equal_bounds_are_not_written(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(minReplicas=1, maxReplicas=2))
    assert propagate_bounds(cluster, ACTIVE, applied(api, group(minReplicas=1, maxReplicas=2))) == ([], {})
    assert api.count("PATCH", ".") == 0


def test_groups_are_matched_by_name_not_by_place(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group("other", maxReplicas=9), group("gpu", maxReplicas=2))
    propagate_bounds(cluster, ACTIVE, applied(api, group("gpu", maxReplicas=3), group("new", maxReplicas=7)))
    assert groups_of(api, "tiny-aaaaa") == [group("other", maxReplicas=9), group("gpu", maxReplicas=3)]


def test_replicas_belong_to_the_autoscaler(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(replicas=1, minReplicas=1, maxReplicas=1))
    propagate_bounds(cluster, ACTIVE, applied(api, group(replicas=4, minReplicas=4, maxReplicas=4)))
    assert groups_of(api, "tiny-aaaaa") == [group(replicas=1, minReplicas=4, maxReplicas=4)]


def test_groups_reordered_in_between_are_not_hit(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group("gpu", maxReplicas=2))
    api.answer("PATCH", "rayclusters", lambda _request: live(api, "tiny-aaaaa", group("other", maxReplicas=9)))
    stored = applied(api, group("gpu", maxReplicas=3))
    with pytest.raises(ApiError) as caught:
        propagate_bounds(cluster, ACTIVE, stored)
    assert caught.value.status == 422
    assert groups_of(api, "tiny-aaaaa") == [group("other", maxReplicas=9)]


def test_a_service_that_has_no_cluster_yet(api: FakeAPI, cluster: Cluster) -> None:
    for active in ("", "tiny-gone0"):
        stored = applied(api, group(maxReplicas=3), active=active)
        assert propagate_bounds(cluster, RAY_SERVICE.clusters_of(stored), stored) == ([], {})


def test_a_maximum_falls_with_the_workers_that_become_idle(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The autoscaler would end a worker above it at once, with the requests of its replica."""
    monkeypatch.setattr(bounds, "POLL_SECONDS", 0.01)
    live(api, "tiny-aaaaa", group(replicas=1, minReplicas=3, maxReplicas=4))
    workers(api, 3)
    stored = applied(api, group(replicas=1, minReplicas=1, maxReplicas=1))
    configured = Applied("RayCluster", "tiny-aaaaa", "llm", "configured")
    assert propagate_bounds(cluster, ACTIVE, stored) == ([configured], {"gpu": 3})
    assert groups_of(api, "tiny-aaaaa") == [group(replicas=1, minReplicas=1, maxReplicas=3)]

    # An error of the moment ends nothing.
    idle = iter([None, "gpu-2", "error", "gpu-1"])
    settled = threading.Event()

    def look(_request: Request) -> Any:
        if (gone := next(idle)) == "error":
            return status(500, "etcd", "InternalError")
        if gone:
            api.remove("Pod", gone)
        return None

    api.answer("GET", "/pods$", look, times=4)
    api.answer("PATCH", "rayclusters", lambda request: settled.set() if b'"value":1' in request.body else None)
    with keep_propagating(cluster, RAY_SERVICE, stored) as changed:
        assert settled.wait(5)
    assert changed == [configured] * 2
    assert groups_of(api, "tiny-aaaaa") == [group(replicas=1, minReplicas=1, maxReplicas=1)]


def test_bounds_settle_although_the_service_is_ready_at_once(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(maxReplicas=4))
    stored = applied(api, group(maxReplicas=7))
    with keep_propagating(cluster, RAY_SERVICE, stored) as changed:
        pass
    assert changed == [Applied("RayCluster", "tiny-aaaaa", "llm", "configured")]


def workers(api: FakeAPI, number: int) -> None:
    for index in range(number):
        labels = {"ray.io/cluster": "tiny-aaaaa", "ray.io/group": "gpu"}
        api.put(kind="Pod", metadata={"name": f"gpu-{index}", "labels": labels})


def test_workers_that_do_not_become_idle_are_left(
    api: FakeAPI, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "POLL_SECONDS", 0.01)
    live(api, "tiny-aaaaa", group(replicas=2, minReplicas=1, maxReplicas=2))
    workers(api, 2)
    stored = applied(api, group(minReplicas=1, maxReplicas=1))
    assert propagate_bounds(cluster, ACTIVE, stored) == ([], {"gpu": 2})
    with keep_propagating(cluster, RAY_SERVICE, stored) as changed:
        time.sleep(0.05)
    assert changed == []
    assert api.count("PATCH", ".") == 0

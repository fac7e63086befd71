from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.bounds import propagate_bounds
from rayllm_ctl.cluster.failures import ApiError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Applied
from tests.cluster.fakeapi import FakeAPI


def group(name: str = "gpu", **bounds: int) -> dict[str, Any]:
    return {"groupName": name, "template": {"spec": {}}, **bounds}


def applied(api: FakeAPI, *groups: dict[str, Any], active: str = "tiny-aaaaa", pending: str = "") -> dict[str, Any]:
    """A RayService as an apply stored it, with the RayClusters that its status names."""
    config = {"enableInTreeAutoscaling": True, "workerGroupSpecs": list(groups)}
    status = {"activeServiceStatus": {"rayClusterName": active}, "pendingServiceStatus": {"rayClusterName": pending}}
    return api.put(kind="RayService", metadata={"name": "tiny"}, spec={"rayClusterConfig": config}, status=status)


def live(api: FakeAPI, name: str, *groups: dict[str, Any]) -> None:
    api.put(kind="RayCluster", metadata={"name": name}, spec={"workerGroupSpecs": list(groups)})


def groups_of(api: FakeAPI, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.stored("RayCluster", name)["spec"]["workerGroupSpecs"]
    return found


def test_changed_bounds_reach_the_active_and_the_pending_cluster(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(minReplicas=1, maxReplicas=2))
    live(api, "tiny-bbbbb", group(minReplicas=1, maxReplicas=2))
    stored = applied(api, group(minReplicas=1, maxReplicas=5), active="tiny-aaaaa", pending="tiny-bbbbb")
    done = list(propagate_bounds(cluster, RAY_SERVICE, stored))
    assert done == [Applied("RayCluster", name, "llm", "configured") for name in ("tiny-aaaaa", "tiny-bbbbb")]
    for name in ("tiny-aaaaa", "tiny-bbbbb"):
        assert groups_of(api, name) == [group(minReplicas=1, maxReplicas=5)]


def test_equal_bounds_are_not_written(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(minReplicas=1, maxReplicas=2))
    assert list(propagate_bounds(cluster, RAY_SERVICE, applied(api, group(minReplicas=1, maxReplicas=2)))) == []
    assert api.count("PATCH", ".") == 0


def test_groups_are_matched_by_name_not_by_place(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group("other", maxReplicas=9), group("gpu", maxReplicas=2))
    list(
        propagate_bounds(
            cluster,
            RAY_SERVICE,
            applied(api, group("gpu", maxReplicas=3), group("new", maxReplicas=7)),
        )
    )
    assert groups_of(api, "tiny-aaaaa") == [group("other", maxReplicas=9), group("gpu", maxReplicas=3)]


def test_replicas_belong_to_the_autoscaler(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group(replicas=1, minReplicas=1, maxReplicas=1))
    list(propagate_bounds(cluster, RAY_SERVICE, applied(api, group(replicas=4, minReplicas=4, maxReplicas=4))))
    assert groups_of(api, "tiny-aaaaa") == [group(replicas=1, minReplicas=4, maxReplicas=4)]


def test_groups_reordered_in_between_are_not_hit(api: FakeAPI, cluster: Cluster) -> None:
    live(api, "tiny-aaaaa", group("gpu", maxReplicas=2))
    api.answer("PATCH", "rayclusters", lambda _request: live(api, "tiny-aaaaa", group("other", maxReplicas=9)))
    stored = applied(api, group("gpu", maxReplicas=3))
    with pytest.raises(ApiError) as caught:
        list(propagate_bounds(cluster, RAY_SERVICE, stored))
    assert caught.value.status == 422
    assert groups_of(api, "tiny-aaaaa") == [group("other", maxReplicas=9)]


def test_a_service_that_has_no_cluster_yet(api: FakeAPI, cluster: Cluster) -> None:
    for active in ("", "tiny-gone0"):
        stored = applied(api, group(maxReplicas=3), active=active)
        assert list(propagate_bounds(cluster, RAY_SERVICE, stored)) == []

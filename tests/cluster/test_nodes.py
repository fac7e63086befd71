from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.nodes import node_pools, node_rooms, requested
from tests.cluster.fakeapi import FakeAPI, status

GPU = "nvidia.com/gpu"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def node(api: FakeAPI, name: str, gpus: int = 0, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> None:  # fmt: skip  # noqa: E501
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    api.put(
        kind="Node",
        metadata={"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        spec=spec,
        status={"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    )


def pod(api: FakeAPI, name: str, on: str, gpus: int, phase: str = "Running") -> None:
    box = {"name": "c", "resources": {"limits": {GPU: str(gpus)}, "requests": {"cpu": "500m"}}}
    spec = {"nodeName": on, "containers": [box]}
    api.put(kind="Pod", metadata={"name": name, "namespace": "other"}, spec=spec, status={"phase": phase})


def test_free_is_what_live_pods_leave(api: FakeAPI, cluster: Cluster) -> None:
    node(api, "n1", 8)
    pod(api, "a", "n1", 4)
    pod(api, "b", "n1", 1)
    pod(api, "done", "n1", 2, phase="Succeeded")
    (room,) = node_rooms(cluster)
    assert room.free is not None
    assert (room.free[GPU], room.free["cpu"], room.free["pods"]) == (3, 7, 108)


def test_pools_join_nodes_that_are_alike(api: FakeAPI, cluster: Cluster) -> None:
    taint = {"key": "team", "value": "search", "effect": "NoSchedule"}
    node(api, "h1", 8, labels={**H100, "zone": "a"})
    node(api, "h2", 8, labels={**H100, "zone": "b"})
    node(api, "h3", 8, labels=H100, taints=[taint])
    node(api, "l1", 1, labels={"cloud.google.com/gke-accelerator": "nvidia-l4"})
    node(api, "cpu", 0)
    pod(api, "a", "h2", 6)
    pools = node_pools(cluster)
    assert [(pool.product, pool.per_node, pool.nodes, pool.taints) for pool in pools] == [
        ("NVIDIA-H100-80GB-HBM3", 8, ("h1", "h2"), ()),
        ("NVIDIA-H100-80GB-HBM3", 8, ("h3",), (("team", "search", "NoSchedule"),)),
        ("nvidia-l4", 1, ("l1",), ()),
    ]
    assert pools[0].free_per_node == {"h1": 8, "h2": 2}
    assert pools[0].labels == H100


def test_nodes_that_take_no_pods_are_in_no_pool(api: FakeAPI, cluster: Cluster) -> None:
    node(api, "down", 8, ready="Unknown")
    node(api, "cordoned", 8, unschedulable=True)
    assert node_pools(cluster) == []


def test_without_the_right_to_list_pods_nothing_is_said_to_be_free(api: FakeAPI, cluster: Cluster) -> None:
    node(api, "n1", 8, labels=H100)
    api.answer("GET", "/api/v1/pods", status(403, 'cannot list resource "pods" in API group ""', "Forbidden"))
    (pool,) = node_pools(cluster)
    assert (pool.per_node, pool.free_per_node) == (8, {})


def test_without_the_right_to_list_nodes_there_are_no_pools(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/api/v1/nodes", status(403, 'cannot list resource "nodes" in API group ""', "Forbidden"))
    assert node_pools(cluster) == []


def box(cpu: str, always: bool = False) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": "Always"} if always else {})}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [box("1"), box("500m")]}, 1.5),
        ({"containers": [box("1")], "initContainers": [box("3"), box("2")]}, 3),
        ({"containers": [box("1")], "initContainers": [box("2", always=True)]}, 3),
        ({"containers": [box("1")], "initContainers": [box("2", always=True), box("4")]}, 6),
        ({"containers": [box("1")], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]}, 1),
    ],
    ids=["containers", "init", "sidecar", "sidecar before init", "overhead", "limit only", "both"],
)
def test_what_the_scheduler_counts_for_a_pod(spec: dict[str, Any], cpu: float) -> None:
    assert requested({"spec": spec})["cpu"] == cpu

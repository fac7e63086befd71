from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.model.events import Checked

LABEL = "nvidia.com/gpu.product"


def manifest(gpus: int = 4, workers: int = 1, **spec: Any) -> dict[str, Any]:
    limits = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "2", "memory": "8Gi"}
    pod = {"containers": [{"name": "ray-worker", "resources": {"limits": limits}}], **spec}
    group = {"groupName": "worker", "minReplicas": workers, "template": {"spec": pod}}
    return {"kind": "RayService", "spec": {"rayClusterConfig": {"workerGroupSpecs": [group]}}}


def node(
    name: str, gpus: int = 8, *, ready: bool = True, taint: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {LABEL: "H100", **(labels or {})}},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def holder(on: str, gpus: int) -> dict[str, Any]:
    container = {"name": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {"name": f"holder-{on}-{gpus}", "namespace": "other"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def test_the_node_that_would_take_the_worker_is_named() -> None:
    found = capacity_check(manifest(), [node("a"), node("b")], [holder("a", 6), holder("b", 4)])
    assert found == Checked("capacity", True, "node b has 4 of 8 nvidia.com/gpu free")


def test_several_workers_need_a_place_each() -> None:
    nodes = [node("a"), node("b")]
    assert capacity_check(manifest(workers=4), nodes, []).ok is True
    found = capacity_check(manifest(workers=5), nodes, [])
    assert (found.ok, found.detail) == (None, "4 of 5 workers fit now")


def test_what_is_too_little_is_counted_on_the_nearest_node() -> None:
    found = capacity_check(manifest(), [node("a"), node("b")], [holder("a", 7), holder("b", 6)])
    assert found.ok is None
    assert "b has insufficient nvidia.com/gpu (4 requested, 2 free)" in found.detail


def test_a_node_of_a_pool_may_be_joined_by_another() -> None:
    found = capacity_check(manifest(), [node("a", 2, labels={"karpenter.sh/nodepool": "gpu"})], [])
    assert found.detail.endswith("an autoscaler may add one")


OTHERS = {
    "dead": (node("a", ready=False), "no ready node has the labels"),
    "tainted": (node("a", taint="dedicated"), "do not tolerate the taint dedicated:NoSchedule"),
    "another": (node("a", labels={LABEL: "L4"}), "no ready node has the labels"),
}


@pytest.mark.parametrize(("other", "said"), OTHERS.values(), ids=OTHERS)
def test_nodes_that_the_worker_cannot_go_to_do_not_count(other: dict[str, Any], said: str) -> None:
    found = capacity_check(manifest(nodeSelector={LABEL: "H100"}), [other], [])
    assert found.ok is None
    assert said in found.detail


def test_a_service_on_cpus_is_told_its_node_too() -> None:
    assert capacity_check(manifest(gpus=0), [node("a", 0)], []) == Checked("capacity", True, "on node a")
    both = capacity_check(manifest(gpus=0), [node("a", 0), node("b", 0)], [])
    assert both == Checked("capacity", True, "2 nodes have capacity for the worker")


def grouped(kind: str, **workers: tuple[int, int]) -> dict[str, Any]:
    """A RayService or RayCluster whose groups have (GPUs per worker, minReplicas)."""
    groups = []
    for name, (gpus, low) in workers.items():
        [group] = manifest(gpus, low)["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        groups.append({**group, "groupName": name})
    spec = {"workerGroupSpecs": groups}
    return {"kind": kind, "spec": {"rayClusterConfig": spec} if kind == "RayService" else spec}


@pytest.mark.parametrize("kind", ["RayService", "RayCluster"])
def test_groups_share_what_is_free(kind: str) -> None:
    nodes = [node("a")]
    both = capacity_check(grouped(kind, small=(2, 1), large=(6, 1)), nodes, [])
    assert (both.ok, both.detail) == (
        True,
        "group small: node a has 8 of 8 nvidia.com/gpu free; group large: node a has 6 of 8 nvidia.com/gpu free",
    )
    one = capacity_check(grouped(kind, small=(4, 1), large=(8, 1)), nodes, [])
    assert one.ok is None
    assert "group large: no node has capacity for a worker now: a has insufficient nvidia.com/gpu" in one.detail


def test_every_host_of_a_worker_needs_a_place() -> None:
    several = grouped("RayService", a=(8, 1))
    several["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["numOfHosts"] = 2
    assert capacity_check(several, [node("a")], []).detail == "1 of 2 workers fit now"
    assert capacity_check(several, [node("a"), node("b")], []).ok is True


@pytest.mark.parametrize("spec", [{}, {"rayClusterConfig": {}}, {"workerGroupSpecs": []}])
def test_a_cluster_without_workers_has_none_to_place(spec: dict[str, Any]) -> None:
    assert capacity_check({"spec": spec}, [node("a")], []) == Checked("capacity", True, "no worker groups")

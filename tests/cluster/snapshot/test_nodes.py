from __future__ import annotations

from typing import Any

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.snapshot.nodes import live_pods, short_node
from tests.cluster.fakeapi import FakeAPI

GPU = "nvidia.com/gpu"


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


def test_live_pods_are_those_that_hold_resources_and_say_how_much(api: FakeAPI, cluster: Cluster) -> None:
    pod(api, "runs", "n1", 4)
    pod(api, "ended", "n1", 2, phase="Succeeded")
    (found,) = live_pods(cluster)
    assert found["metadata"]["name"] == "runs"
    assert found["spec"]["nodeName"] == "n1"
    assert "nvidia.com/gpu" in str(found["spec"]["containers"][0]["resources"])
    assert found["status"] == {"phase": "Running"}


def test_a_short_node_keeps_what_scheduling_looks_at(api: FakeAPI, cluster: Cluster) -> None:
    node(api, "n1", gpus=8, labels={"nvidia.com/gpu.product": "H100"})
    whole = cluster.get("Node", "n1")
    short = short_node({**whole, "status": {**whole["status"], "images": [{"names": ["large"]}]}})
    assert short["metadata"]["labels"]["nvidia.com/gpu.product"] == "H100"
    assert short["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert "images" not in short["status"]

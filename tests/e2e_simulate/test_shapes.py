"""Shapes of simulated nodes, their Node objects, and KWOK's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from e2e.cluster.errors import RigError
from e2e.simulate import kwok_arguments, kwok_config, node_manifests, parse


def test_nodes_of_a_shape_look_like_the_machine_that_has_these_gpus() -> None:
    first, second = node_manifests(parse("H100-80GB:8x2"))
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("sim-h100-80gb-8-1", "sim-h100-80gb-8-2")
    labels = first["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["kubernetes.io/hostname"] == "sim-h100-80gb-8-1"
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert first["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert first["spec"]["taints"] == [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]


def test_several_shapes_have_nodes_of_different_names() -> None:
    nodes = node_manifests([*parse("l4:1x2,L4:4"), *parse("L4:1")])
    names = [node["metadata"]["name"] for node in nodes]
    assert names == ["sim-l4-1-1", "sim-l4-1-2", "sim-l4-4-1", "sim-l4-1-3"]


def test_number_of_gpus_that_no_machine_has_gets_a_made_up_machine() -> None:
    (node,) = node_manifests(parse("H100-80GB:16"))
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "simulated"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "16"


def test_labels_are_valid_whatever_the_machine() -> None:
    for text in ("A30:8", "MI300X:8", "T4:1", "H200:8", "RTX4090:8"):
        for value in node_manifests(parse(text))[0]["metadata"]["labels"].values():
            assert len(value) <= 63
            assert value.replace("-", "").replace("_", "").replace(".", "").isalnum()


@pytest.mark.parametrize("text", ["", "H100-80GB", "H100-80GB:0", "H100-80GB:8x0", "H100-80GB:8x", "H100-80GB:8x2,"])
def test_text_that_is_no_shape(text: str) -> None:
    with pytest.raises(RigError) as refused:
        parse(text)
    assert "H100-80GB:8x2" in refused.value.hint


def test_unknown_gpu_is_answered_with_the_nearest() -> None:
    with pytest.raises(RigError, match="H10O") as refused:
        parse("H10O:8")
    assert "H100-80GB" in refused.value.hint


def test_kwok_gets_its_own_stages_and_only_simulated_nodes() -> None:
    stages = list(yaml.safe_load_all(kwok_config()))
    assert [stage["metadata"]["name"] for stage in stages] == [
        "node-ready",
        "pod-running",
        "job-pod-finished",
        "pod-deleted",
    ]
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages} == {"Node", "Pod"}
    arguments = kwok_arguments(
        kubeconfig=Path("/k"), config=Path("/c"), node_address="10.77.0.1", pod_range="10.66.0.0/16"
    )
    assert "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake" in arguments
    assert "--cidr=10.66.0.0/16" in arguments

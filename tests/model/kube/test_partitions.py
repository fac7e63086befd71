"""Names and labels of parts of GPUs, as NVIDIA's and AMD's device plugins, vGPU and GKE write them."""

from __future__ import annotations

import pytest

from rayllm_ctl.catalog import gpus
from rayllm_ctl.model.kube.partitions import read_label, read_labels, read_partition


@pytest.mark.parametrize(
    ("name", "what", "whole"),
    [
        # k8s-device-plugin 0.17: resources of strategy mixed, products of strategy single, renamed shared resources
        ("nvidia.com/mig-3g.40gb", "the MIG partition 3g.40gb (40 GB)", ""),
        ("mig-1g.10gb", "the MIG partition 1g.10gb (10 GB)", ""),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "the MIG partition 3g.40gb (40 GB)", "NVIDIA-A100-SXM4-80GB"),
        ("NVIDIA-H200-MIG-1c.3g.71gb.me", "the MIG partition 1c.3g.71gb (71 GB)", "NVIDIA-H200"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "a time-shared GPU", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.shared", "a time-shared GPU", ""),
        ("nvidia.com/mig-1g.10gb.shared", "a time-shared GPU", ""),
        # vGPU: products of guests, and resources of KubeVirt's device plugin
        ("GRID-T4-16Q", "a vGPU profile with 16 GB", "T4"),
        ("NVIDIA A100D-40C", "a vGPU profile with 40 GB", "A100D"),
        ("NVIDIA-A100-4-20C", "a vGPU profile with 20 GB", "A100"),
        ("nvidia.com/NVIDIA_L40S-48Q", "a vGPU profile with 48 GB", "L40S"),
        ("NVIDIA-RTX6000-Ada-48Q", "a vGPU profile with 48 GB", "RTX6000-Ada"),
        # HAMi, and AMD's device plugin with partitions
        ("nvidia.com/gpumem", "a share of a GPU", ""),
        ("amd.com/cpx_nps4", "a partition of a GPU in mode CPX-NPS4", ""),
    ],
)
def test_names_of_parts(name: str, what: str, whole: str) -> None:
    part = read_partition(name)
    assert part is not None
    assert (part.what, part.whole) == (what, whole)


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "spx_nps1", "H100", "NVIDIA-GeForce-RTX-5090", ""])
def test_names_of_whole_gpus(name: str) -> None:
    assert read_partition(name) is None


def test_no_gpu_of_the_catalog_is_taken_for_a_part() -> None:
    known = [
        name
        for gpu in gpus.load_gpus().values()
        for name in (gpu.name, *gpu.aliases, *(value for values in gpu.node_labels.values() for value in values))
    ]
    assert [name for name in known if read_partition(name) is not None] == []


@pytest.mark.parametrize(
    ("key", "value", "is_part"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-L4-SHARED", True),
        ("nvidia.com/gpu.product", "NVIDIA-L4", False),
        ("nvidia.com/gpu.sharing-strategy", "time-slicing", True),
        ("nvidia.com/gpu.sharing-strategy", "none", False),
        ("nvidia.com/gpu.replicas", "4", True),
        ("nvidia.com/gpu.replicas", "1", False),
        ("nvidia.com/vgpu.present", "true", True),
        ("nvidia.com/vgpu.present", "false", False),
        ("cloud.google.com/gke-gpu-partition-size", "1g.5gb", True),
        ("cloud.google.com/gke-gpu-sharing-strategy", "mps", True),
        ("cloud.google.com/gke-max-shared-clients-per-gpu", "2", True),
        ("node.kubernetes.io/instance-type", "Standard_NV12ads_A10_v5", True),
        ("node.kubernetes.io/instance-type", "Standard_NV36ads_A10_v5", False),
        ("node.kubernetes.io/instance-type", "g6f.2xlarge", True),
        ("kubernetes.io/arch", "arm64", False),
    ],
)
def test_labels_of_parts(key: str, value: str, is_part: bool) -> None:
    assert (read_label(key, value) is not None) is is_part
    found = read_labels({"a": "b", key: value})
    assert (found[0] if found else None) == (f"{key}={value}" if is_part else None)

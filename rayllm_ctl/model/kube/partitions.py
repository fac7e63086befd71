"""Names and labels of parts of GPUs: MIG partitions, vGPU profiles, shares in time, partitions of AMD's.

They are recognized, so that nobody takes a part for a whole GPU, and not planned: what a pod of KubeRay asks for is
counted in whole GPUs (num-gpus comes from the resource whose name ends in "gpu", utils/resources.go of KubeRay 1.6.2),
and the planner has no figures for parts. Labels are those of NVIDIA's device plugin and GPU feature discovery 0.17
(suffixes of gpu.product, gpu.sharing-strategy, gpu.replicas, vgpu.present), GKE's and AMD's device plugin's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rayllm_ctl.frozen import dataclass

_MIG = r"(?i)(?:(.+?)-)?mig-((?:\d+c\.)?\d+g\.(\d+)gb)\S*"
_VGPU = r"(?i)(?:(?:nvidia|grid|vgpu)[-_ /]+)*([a-z]+\d+[a-z]*(?:[-_ ](?:ada|sxm\d))?)(?:-\d)?-(\d+)[abcq]"
_AMD = r"(?i)(?:amd\.com/)?([sdqct]px)(?:[-_](nps\d))?"
_SHARED = r"(?i)(.*?)[-.]shared"
_RESOURCE = r"(?i)^nvidia\.com/"
"""Texts and not compiled: most commands meet none of these names."""

_HAMI = frozenset({"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})

_SHARES = frozenset({"time-slicing", "time-sharing", "mps"})
_COUNTS = frozenset({"nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu"})
_STRATEGIES = frozenset({"nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy"})
_PRODUCTS = frozenset({"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu.nvidia.com/class"})

_MACHINES = {
    "g6f.large": ("L4", 3), "g6f.xlarge": ("L4", 3), "g6f.2xlarge": ("L4", 6), "g6f.4xlarge": ("L4", 12),
    "gr6f.4xlarge": ("L4", 12), "Standard_NV6ads_A10_v5": ("A10", 4), "Standard_NV12ads_A10_v5": ("A10", 8),
    "Standard_NV18ads_A10_v5": ("A10", 12),
}  # fmt: skip
"""Machine types with a fraction of a GPU: its kind and the gigabytes that the machine has of it (AWS G6f and Gr6f,
Azure NVadsA10 v5)."""

_NO_SHARE = "its containers share the memory of a whole GPU, of which vLLM takes gpu_memory_utilization for itself"
_VIRTUAL = "its memory and speed are those of a share of a GPU"
_WHOLE_AMD = "what is known of AMD GPUs holds for whole ones (mode SPX)"


@dataclass(frozen=True)
class Partition:
    """A part of a GPU. what: for messages; why: what stands against planning it; whole: a name of the whole GPU, ""
    where the part's name has none."""

    what: str
    why: str
    whole: str = ""


def read_partition(name: str) -> Partition | None:
    """The part that a name of a GPU, of a product or of a resource stands for; None if it is none."""
    text = name.strip()
    if text.lower() in _HAMI:
        return Partition("a share of a GPU", _NO_SHARE)
    plain = re.sub(_RESOURCE, "", text)
    if shared := re.fullmatch(_SHARED, plain):
        part = read_partition(shared[1])
        return Partition("a time-shared GPU", _NO_SHARE, part.whole if part else _product(shared[1]))
    if mig := re.fullmatch(_MIG, plain):
        why = "KubeRay counts whole GPUs, and TP does not go over partitions"
        return Partition(f"the MIG partition {mig[2].lower()} ({mig[3]} GB)", why, _product(mig[1] or ""))
    if vgpu := re.fullmatch(_VGPU, plain):
        return Partition(f"a vGPU profile with {vgpu[2]} GB", _VIRTUAL, vgpu[1])
    if amd := re.fullmatch(_AMD, text):
        mode = "-".join(part.upper() for part in amd.groups() if part)
        return None if mode.startswith("SPX") else Partition(f"a partition of a GPU in mode {mode}", _WHOLE_AMD)
    return None


def _product(name: str) -> str:
    return "" if name.lower() in ("", "gpu") else name


def read_label(key: str, value: str) -> Partition | None:
    """The part that a label of a node stands for; None if it is none."""
    if key in _PRODUCTS:
        return read_partition(value)
    if key in _STRATEGIES:
        return Partition("a time-shared GPU", _NO_SHARE) if value in _SHARES else None
    if key in _COUNTS:
        return Partition("a time-shared GPU", _NO_SHARE) if value.isdecimal() and int(value) > 1 else None
    if key == "cloud.google.com/gke-gpu-partition-size":
        return read_partition(f"mig-{value}")
    if key == "node.kubernetes.io/instance-type" and value in _MACHINES:
        kind, size = _MACHINES[value]
        return Partition(f"a machine with a fraction of an {kind}, {size} GB", _VIRTUAL, kind)
    if key == "nvidia.com/vgpu.present" and value == "true":
        return Partition("a vGPU", _VIRTUAL)
    return None


def read_labels(labels: Mapping[str, str]) -> tuple[str, Partition] | None:
    """The first of the labels of a node, as key=value, that stands for a part, and the part."""
    for key, value in sorted(labels.items()):
        if (part := read_label(key, value)) is not None:
            return f"{key}={value}", part
    return None

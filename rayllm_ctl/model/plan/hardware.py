"""GPUs, the nodes that carry them, and their prices: pure data that the catalog fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.json_form import json_key

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""The label with which clouds name a node's machine type."""


@dataclass(frozen=True)
class NodeShape:
    """A machine type. `memory_gib` is the machine's RAM in GiB. gpu_memory_bytes: of each of its GPUs as torch reports
    it, where that is not what the kind of GPU has elsewhere."""

    cloud: str
    instance_type: str
    gpus: int
    cpus: int
    memory_gib: int = field(metadata=json_key("memoryGiB"))
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True)
class GPU:
    """One kind of GPU.

    memory_bytes: total memory as torch reports it (what gpu_memory_utilization multiplies).
    memory_measured: False if it is derived from the driver's figure rather than read from a log.
    driver_memory_mib: total memory as the driver reports it, which is what GPU feature discovery labels nodes with.
    compute_capability: (major, minor); None for AMD. bandwidth: bytes/s.
    flops: dense FLOP/s by type (bf16, fp16, fp8, int8, fp4).
    link_bandwidth: bytes/s that a GPU sends to the others of its node over all its links.
    interconnect: nvlink, pcie, xgmi. host_architecture: of the CPUs beside it, as Kubernetes names it (amd64, arm64).
    unified_memory: the GPU has no memory of its own but that of the machine, which its other processes use too.
    node_labels: label key -> values, any of which marks a node of this GPU (feature discovery, GKE, EKS, AKS).
    taints: those that clouds put on such nodes, as key=value:effect. price_per_hour: USD by cloud
    ("any": wherever it is rented); price_source: where they are from, with their date.
    """

    name: str
    vendor: str
    memory_bytes: int
    bandwidth: float = field(metadata=json_key("bandwidthBytesPerSecond"))
    flops: Mapping[str, float] = field(metadata=json_key("flopsPerSecond"))
    architecture: str
    compute_capability: tuple[int, int] | None = None
    memory_measured: bool = True
    host_architecture: str = "amd64"
    unified_memory: bool = False
    driver_memory_mib: int = field(default=0, metadata=json_key("driverMemoryMiB"))
    interconnect: str = "pcie"
    link_bandwidth: float = field(default=0.0, metadata=json_key("linkBandwidthBytesPerSecond"))
    resource: str = "nvidia.com/gpu"
    ray_accelerator_type: str | None = None
    aliases: tuple[str, ...] = ()
    node_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    shapes: tuple[NodeShape, ...] = ()
    price_per_hour: Mapping[str, float] = field(default_factory=dict, metadata=json_key("usdPerHour"))
    price_source: str = ""
    sources: tuple[str, ...] = ()

    def on(self, instance_type: str) -> GPU:
        """This kind as it is in machines of a type; itself where nothing else is known of them."""
        shapes = tuple(shape for shape in self.shapes if shape.instance_type == instance_type)
        if not shapes:
            return self
        return replace(self, shapes=shapes, memory_bytes=shapes[0].gpu_memory_bytes or self.memory_bytes)

    def larger(self) -> GPU | None:
        """This kind with the most memory that it has in some machines, where that is more; None if in none."""
        most = max((shape.gpu_memory_bytes or 0 for shape in self.shapes), default=0)
        if most <= self.memory_bytes:
            return None
        shapes = tuple(shape for shape in self.shapes if shape.gpu_memory_bytes == most)
        return replace(self, shapes=shapes, memory_bytes=most)

    @property
    def max_per_node(self) -> int:
        """The most GPUs of this kind that one known machine type has (1 if none is known)."""
        return max((shape.gpus for shape in self.shapes), default=1)

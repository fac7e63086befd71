"""GPUs, the nodes that carry them, and their prices: pure data that the catalog fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class NodeShape:
    """A machine type. `memory_gib` is the machine's RAM in GiB."""

    cloud: str
    instance_type: str
    gpus: int
    cpus: int
    memory_gib: int


@dataclass(frozen=True)
class GPU:
    """One kind of GPU.

    memory_bytes: total memory as torch reports it (what gpu_memory_utilization multiplies).
    memory_measured: False where it is derived from the driver's figure rather than read from a log.
    driver_memory_mib: total memory as the driver reports it, which is what GPU feature discovery labels nodes with.
    compute_capability: (major, minor); None for AMD. bandwidth: bytes/s.
    flops: dense FLOP/s by type (bf16, fp16, fp8, int8, fp4).
    link_bandwidth: bytes/s that a GPU sends to the others of its node over all its links.
    interconnect: nvlink, pcie, xgmi.
    node_labels: label key -> values, any of which marks a node of this GPU (feature discovery, GKE, EKS, AKS).
    taints: those that clouds put on such nodes, as key=value:effect. price_per_hour: USD by cloud
    ("any": wherever it is rented); price_source: where they are from, with their date.
    """

    name: str
    vendor: str
    memory_bytes: int
    bandwidth: float
    flops: Mapping[str, float]
    architecture: str
    compute_capability: tuple[int, int] | None = None
    memory_measured: bool = True
    driver_memory_mib: int = 0
    interconnect: str = "pcie"
    link_bandwidth: float = 0.0
    resource: str = "nvidia.com/gpu"
    ray_accelerator_type: str | None = None
    aliases: tuple[str, ...] = ()
    node_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    shapes: tuple[NodeShape, ...] = ()
    price_per_hour: Mapping[str, float] = field(default_factory=dict)
    price_source: str = ""
    sources: tuple[str, ...] = ()

    @property
    def max_per_node(self) -> int:
        """The most GPUs of this kind that one known machine type has (1 if none is known)."""
        return max((shape.gpus for shape in self.shapes), default=1)

"""`H100-80GB:8x2`: a kind of GPU, how many a node has, and how many such nodes; and their Node objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.cluster.errors import RigError
from e2e.simulate import gpus

# KWOK manages the nodes with this annotation; the taint keeps pods away that do not know of it.
MARK: Final = "kwok.x-k8s.io/node"
SIMULATED: Final = "rayllm.local/simulated"
"""Label by which a namespace's node selector sends its pods to simulated nodes."""

_SHAPE = re.compile(r"(?P<gpu>[^:,]+):(?P<per_node>[1-9][0-9]?)(?:x(?P<nodes>[1-9][0-9]{0,3}))?")
_EXAMPLE = "a shape is GPU:COUNT or GPU:COUNTxNODES, such as H100-80GB:8x2"

# For a number of GPUs that no known machine has: what a machine of eight usually has, by GPU.
_CPUS_PER_GPU, _MEMORY_GIB_PER_GPU = 24, 256


@dataclass(frozen=True)
class SimulatedNodes:
    """`nodes` equal nodes, each with `gpus_per_node` GPUs of one kind (an entry of the product's catalog)."""

    gpu: Mapping[str, Any]
    gpus_per_node: int
    nodes: int


def parse(text: str) -> list[SimulatedNodes]:
    """The shapes of a comma-separated list such as `H100-80GB:8x2,L4:1x4`; any name that the GPU catalog knows.

    RigError for text of another form and for an unknown GPU, with the nearest names.
    """
    shapes = []
    for part in text.split(","):
        matched = _SHAPE.fullmatch(part.strip())
        if not matched:
            raise RigError(f"not a shape of simulated nodes: {part.strip()!r}", _EXAMPLE)
        shapes.append(SimulatedNodes(gpus.find(matched["gpu"]), int(matched["per_node"]), int(matched["nodes"] or 1)))
    return shapes


def node_manifests(shapes: Sequence[SimulatedNodes]) -> list[dict[str, Any]]:
    """Node objects with the labels of GPU feature discovery, the machine's capacity, and the taint of simulated nodes.

    Nodes are named `sim-<gpu>-<gpus per node>-<number>`, numbered over all shapes of that kind and size.
    """
    manifests = []
    numbers: dict[str, int] = {}
    for shape in shapes:
        stem = f"sim-{re.sub(r'[^a-z0-9]+', '-', shape.gpu['name'].lower())}-{shape.gpus_per_node}"
        for _ in range(shape.nodes):
            numbers[stem] = numbers.get(stem, 0) + 1
            manifests.append(_node(f"{stem}-{numbers[stem]}", shape))
    return manifests


def gpu_labels(gpu: Mapping[str, Any], count: int) -> dict[str, str]:
    """The labels by which GPU feature discovery tells a node's GPUs: product, count, and the driver's memory in MiB."""
    vendor = "nvidia.com" if gpu["vendor"] == "nvidia" else "amd.com"
    products = {
        key: values[0] for key, values in gpu["nodeLabels"].items() if key.startswith(vendor) and "product" in key
    }
    if gpu["vendor"] != "nvidia":
        return products
    return {**products, f"{vendor}/gpu.count": str(count), f"{vendor}/gpu.memory": str(gpu["driverMemoryMiB"])}


def _node(name: str, shape: SimulatedNodes) -> dict[str, Any]:
    cpus, memory_gib, instance_type = _machine(shape)
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        SIMULATED: "true",
        **gpu_labels(shape.gpu, shape.gpus_per_node),
    }
    resources_ = {
        "cpu": str(cpus),
        "memory": f"{memory_gib}Gi",
        "ephemeral-storage": "2Ti",
        "pods": "110",
        shape.gpu["resource"]: str(shape.gpus_per_node),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {MARK: "fake"}},
        "spec": {"taints": [{"key": MARK, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources_, "allocatable": resources_},
    }


def _machine(shape: SimulatedNodes) -> tuple[int, int, str]:
    """CPUs, memory in GiB and instance type of the first known machine with that many GPUs, rented ones first."""
    fitting = [one for one in shape.gpu["shapes"] if one["gpus"] == shape.gpus_per_node]
    for machine in sorted(fitting, key=lambda one: bool(one["cloud"] == "on-premises")):
        rented = machine["cloud"] != "on-premises"
        return machine["cpus"], machine["memoryGiB"], machine["instanceType"] if rented else "simulated"
    return _CPUS_PER_GPU * shape.gpus_per_node, _MEMORY_GIB_PER_GPU * shape.gpus_per_node, "simulated"

"""The GPUs that a real node claims: pods that ask for them are placed on it and run, only the devices are missing."""

from __future__ import annotations

from typing import Final

from e2e import simulate
from e2e.cluster.capacity import Claim
from e2e.cluster.errors import RigError
from e2e.cluster.state import Options
from e2e.simulate.shapes import SIMULATED

_GIB: Final = 1024**3
# Labels that every kubelet sets by itself, and truly; and the one that says what a real node is not.
_OWN_LABELS: Final = ("kubernetes.io/", SIMULATED)
_COUNTED_BY_KUBELET: Final = ("cpu", "memory", "pods", "ephemeral-storage")


def claims(options: Options) -> list[Claim]:
    """What each real node claims, in their order: the last one is what `--claim-gpus` says, the others are plain.

    RigError for a shape that is not understood, and for a number of nodes in it.
    """
    plain = [Claim() for _ in range(options.nodes)]
    return [*plain[:-1], gpu_node(options.claim_gpus)] if options.claim_gpus else plain


def gpu_node(shape: str) -> Claim:
    """The claim of one node of `shape` (such as H100-80GB:8): the CPUs, memory, GPUs and labels of such a machine."""
    shapes = simulate.parse(shape)
    if len(shapes) != 1 or shapes[0].nodes != 1 or "x" in shape.rpartition(":")[2]:
        raise RigError(f"--claim-gpus {shape}: one node claims GPUs of one kind", "--claim-gpus H100-80GB:8")
    # The same machine as a simulated node of that shape, so that both are planned and placed alike.
    node = simulate.node_manifests(shapes)[0]
    capacity = node["status"]["capacity"]
    return Claim(
        cpus=int(capacity["cpu"]),
        memory=int(capacity["memory"].removesuffix("Gi")) * _GIB,
        labels={key: value for key, value in node["metadata"]["labels"].items() if not key.startswith(_OWN_LABELS)},
        extended={key: value for key, value in capacity.items() if key not in _COUNTED_BY_KUBELET},
    )

"""The GPUs that a real node claims: pods that ask for them are placed on it and run, only the devices are missing."""

from __future__ import annotations

from e2e.cluster.capacity import Claim
from e2e.cluster.state import Options


def claims(options: Options) -> list[Claim]:
    """What each real node claims, in their order; ValueError for a GPU shape that is not understood."""
    return [Claim() for _ in range(options.nodes)]

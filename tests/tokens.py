"""Manifests of RayClusters that ask for no token."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

_CLUSTER = {"RayService": ("spec", "rayClusterConfig"), "RayCluster": ("spec",), "RayJob": ("spec", "rayClusterSpec")}


def without_token(manifests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`manifests` without authOptions."""
    changed = copy.deepcopy(list(map(dict, manifests)))
    for manifest in changed:
        cluster: Any = manifest
        for part in _CLUSTER.get(manifest["kind"], ()):
            cluster = cluster.get(part, {})
        cluster.pop("authOptions", None)
    return changed

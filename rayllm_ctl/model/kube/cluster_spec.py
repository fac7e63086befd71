"""The path to the spec of a RayCluster in the objects that KubeRay creates one for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CLUSTER_FIELDS: Final[Mapping[str, str]] = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}
"""The field of an object's spec, by its kind. The spec of a RayCluster is the one itself."""


def cluster_path(kind: str) -> tuple[str, ...]:
    """The path in an object of `kind`: a RayService, RayCluster or RayJob."""
    return ("spec", CLUSTER_FIELDS[kind]) if kind in CLUSTER_FIELDS else ("spec",)


def cluster_spec(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec of the RayCluster in a RayService, RayCluster or RayJob; empty if it has none."""
    spec = item.get("spec")
    if not isinstance(spec, Mapping):
        return {}
    field = _field(spec)
    found = spec[field] if field else spec
    return found if isinstance(found, Mapping) else {}


def with_cluster_spec(item: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """`item` with another spec of its RayCluster."""
    field = _field(item["spec"])
    return {**item, "spec": {**item["spec"], field: cluster} if field else cluster}


def with_cluster_fields(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an object of `kind` that holds these fields of its RayCluster's spec alone."""
    return {"spec": {CLUSTER_FIELDS[kind]: fields} if kind in CLUSTER_FIELDS else fields}


def _field(spec: Mapping[str, Any]) -> str:
    return next((field for field in CLUSTER_FIELDS.values() if field in spec), "")

"""Prerequisites of applying manifests: their namespace, and the user's rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind

KEPT = frozenset({*WORKLOADS, "ConfigMap"})
"""Kinds that stay when a service no longer renders them: pods of the old Ray cluster of an upgrade may still mount a
ConfigMap of an earlier spec."""


def placed(manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """A manifest with its namespace, which the manifests of `render` may omit."""
    return {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}


def annotated(manifest: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """A manifest with additional annotations."""
    if not annotations:
        return dict(manifest)
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def apply_rights(kind: WorkloadKind, manifests: Sequence[Mapping[str, Any]]) -> Rights:
    """The rights to apply `manifests`, with or without a dry run."""
    others = [manifest["kind"] for manifest in manifests if manifest["kind"] != kind.name]
    return kind.rights_for("apply") | Rights(
        tuple(Right(verb, other) for other in others for verb in ("get", "create", "patch"))
    )

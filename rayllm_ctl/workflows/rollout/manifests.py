"""Prerequisites of applying manifests: their namespace, and the user's rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube.cluster_spec import cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.kube.owned import declared_by
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


def without_pods(manifest: Mapping[str, Any], *, suspended: bool = True) -> dict[str, Any]:
    """A manifest that runs a service, so that KubeRay deletes all its pods; any other manifest as it is.

    suspended False: so that KubeRay starts them again, which it does for an explicit false alone (KubeRay 1.6.2).
    """
    if manifest["kind"] not in WORKLOADS:
        return dict(manifest)
    return with_cluster_spec(manifest, {**cluster_spec(manifest), "suspend": suspended})


def as_declared(live: Mapping[str, Any], manifests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifests as the controller applies them for the LLMService that declares the object `live`."""
    references = {"ownerReferences": [dict(declared_by(live) or {})]}
    found = [{**item, "metadata": {**item["metadata"], **references}} for item in manifests]
    return [without_pods(item) for item in found] if is_suspended(live) else found


def apply_rights(kind: WorkloadKind, manifests: Sequence[Mapping[str, Any]]) -> Rights:
    """The rights to apply `manifests`, with or without a dry run."""
    others = [manifest["kind"] for manifest in manifests if manifest["kind"] != kind.name]
    return kind.rights_for("apply") | Rights(
        tuple(Right(verb, other) for other in others for verb in ("get", "create", "patch"))
    )

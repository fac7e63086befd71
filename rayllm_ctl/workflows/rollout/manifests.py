"""Prerequisites of applying manifests: their namespace, and the user's rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube.cluster_spec import cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.kube.labels import QUEUE
from rayllm_ctl.model.kube.model_downloads import is_kept
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


def suspend_or_resume(
    manifests: Sequence[Mapping[str, Any]], live: Mapping[str, Any] | None, *, suspended: bool
) -> list[dict[str, Any]]:
    """Manifests as the controller applies them, so that KubeRay deletes the pods of the service, or keeps them."""
    if suspended or (live is not None and was_suspended(live)):
        return [_with_suspend(item, suspended) if item["kind"] in WORKLOADS else dict(item) for item in manifests]
    return [dict(item) for item in manifests]


def was_suspended(live: Mapping[str, Any]) -> bool:
    """Whether the service whose object is `live` has been suspended, and not by Kueue.

    From then on, `suspend` stays as an explicit false: KubeRay resumes for that alone, and takes the removal of the
    field for another spec, for which it starts a second RayCluster (1.6.2, rayservice_controller.go,
    shouldUpdateCluster).
    """
    queued = QUEUE in (live["metadata"].get("labels") or {})
    return not queued and (is_suspended(live) or "suspend" in cluster_spec(live))


def _with_suspend(manifest: Mapping[str, Any], suspended: bool) -> dict[str, Any]:
    return with_cluster_spec(manifest, {**cluster_spec(manifest), "suspend": suspended})


def as_declared(live: Mapping[str, Any], manifests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifests as the controller applies them for the LLMService that declares the object `live`."""
    references = {"ownerReferences": [dict(declared_by(live) or {})]}
    found = [
        dict(item) if is_kept(item) else {**item, "metadata": {**item["metadata"], **references}} for item in manifests
    ]
    return suspend_or_resume(found, live, suspended=is_suspended(live))


def apply_rights(kind: WorkloadKind, manifests: Sequence[Mapping[str, Any]]) -> Rights:
    """The rights to apply `manifests`, with or without a dry run."""
    others = [manifest["kind"] for manifest in manifests if manifest["kind"] != kind.name]
    return kind.rights_for("apply") | Rights(
        tuple(Right(verb, other) for other in others for verb in ("get", "create", "patch"))
    )

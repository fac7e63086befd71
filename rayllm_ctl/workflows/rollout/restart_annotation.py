"""The part of a RayService that starts a second RayCluster without any other change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.model.kube.cluster_spec import with_cluster_fields
from rayllm_ctl.model.kube.labels import RESTARTED
from rayllm_ctl.workflows.services import ServiceRef


def with_restart(service: ServiceRef) -> dict[str, Any]:
    """A RayService with only an annotation of the head's pods, which is part of KubeRay's hash of the RayCluster.

    It has its own field manager: otherwise the next deploy would remove it, which changes the hash again.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return restart_of(service.live, now)


def restart_of(live: Mapping[str, Any], value: str) -> dict[str, Any]:
    """As with_restart. value: of the annotation; the same one restarts nothing again."""
    kind, metadata = str(live["kind"]), live["metadata"]
    template = {"metadata": {"annotations": {RESTARTED: value}}}
    return {
        "apiVersion": live["apiVersion"],
        "kind": kind,
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        **with_cluster_fields(kind, {"headGroupSpec": {"template": template}}),
    }

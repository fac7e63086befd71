"""The part of a RayService that starts a second RayCluster without any other change."""

from __future__ import annotations

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
    template = {"metadata": {"annotations": {RESTARTED: now}}}
    return {
        "apiVersion": service.live["apiVersion"],
        "kind": service.kind.name,
        "metadata": {"name": service.name, "namespace": service.namespace},
        **with_cluster_fields(service.kind.name, {"headGroupSpec": {"template": template}}),
    }

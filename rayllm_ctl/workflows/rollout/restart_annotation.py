"""The part of a RayService that starts a second RayCluster although nothing else of it changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.model.kube.cluster_spec import with_cluster_fields
from rayllm_ctl.model.kube.labels import RESTARTED
from rayllm_ctl.workflows.services import ServiceRef


def with_restart(service: ServiceRef) -> dict[str, Any]:
    """The annotation of the head's pods that KubeRay's hash of the RayCluster takes in, and nothing else.

    It has a field manager of its own: a deploy that does not know of it would remove it, which is another change of the
    hash.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    template = {"metadata": {"annotations": {RESTARTED: now}}}
    return {
        "apiVersion": service.live["apiVersion"],
        "kind": service.kind.name,
        "metadata": {"name": service.name, "namespace": service.namespace},
        **with_cluster_fields(service.kind.name, {"headGroupSpec": {"template": template}}),
    }

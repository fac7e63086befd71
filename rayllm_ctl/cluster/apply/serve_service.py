"""The Service in front of a live RayService.

KubeRay writes type and annotations of spec.serveService when it creates the Service and, except for the annotations,
when it points it at another RayCluster (ray-operator/controllers/ray/rayservice_controller.go, reconcileServices,
v1.6.2). In between, a change is written to the Service here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.kube.labels import MANAGER
from rayllm_ctl.model.workload import Right, WorkloadKind

SERVE_SERVICE_RIGHTS = (Right("get", "Service"), Right("patch", "Service"))
"""Rights for a service with options for its Service."""


def propagate_service(cluster: Cluster, kind: WorkloadKind, applied: Mapping[str, Any]) -> Iterator[Applied]:
    """Write the type, address ranges and annotations of `applied` (as stored) to its Service, if they differ.

    Annotations that are no longer wanted stay: other clients may have set them.
    """
    name, namespace = kind.serve_service(applied["metadata"]["name"]), applied["metadata"]["namespace"]
    options = (applied.get("spec") or {}).get("serveService")
    try:
        live = cluster.get("Service", name, namespace)
    except NotFoundError:
        return  # KubeRay creates it once the service runs
    except ForbiddenError:
        if options:
            raise
        return
    change = _change(live, options or {})
    if change:
        cluster.patch(
            "Service", name, namespace, change, content_type="application/merge-patch+json",
            query=[("fieldManager", MANAGER)],
        )  # fmt: skip
        yield Applied("Service", name, namespace, "configured")


def _change(live: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch; empty if nothing differs."""
    wanted, spec = options.get("spec") or {}, live.get("spec") or {}
    change: dict[str, Any] = {}
    if wanted.get("type", "ClusterIP") != spec.get("type", "ClusterIP"):
        change["spec"] = {"type": wanted.get("type", "ClusterIP")}
    ranges = wanted.get("loadBalancerSourceRanges")
    if ranges != spec.get("loadBalancerSourceRanges"):
        change["spec"] = {**change.get("spec", {}), "loadBalancerSourceRanges": ranges}
    present = live["metadata"].get("annotations") or {}
    annotations = (options.get("metadata") or {}).get("annotations") or {}
    missing = {key: value for key, value in annotations.items() if present.get(key) != value}
    if missing:
        change["metadata"] = {"annotations": missing}
    return change

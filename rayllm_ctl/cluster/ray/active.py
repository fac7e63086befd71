"""Ray Serve on the active RayCluster of a RayService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay


@dataclass(frozen=True)
class ActiveServe:
    """A RayService, its active RayCluster, and Ray's dashboard there."""

    rayservice: Mapping[str, Any]
    ray_cluster: Mapping[str, Any]
    dashboard: Dashboard


def active_serve(cluster: Cluster, rayservice: Mapping[str, Any]) -> ActiveServe:
    """The active RayCluster and its dashboard. Raises UserError if no RayCluster is active."""
    active = active_cluster(rayservice)
    if not active:
        raise UserError("the RayService has no active RayCluster")
    ray_cluster = cluster.get(kuberay.RAY_CLUSTER, active, rayservice["metadata"]["namespace"])
    return ActiveServe(rayservice, ray_cluster, dashboard_of(cluster, ray_cluster))


def active_cluster(rayservice: Mapping[str, Any]) -> str:
    """The name of the RayCluster that serves; empty if there is none."""
    return str(((rayservice.get("status") or {}).get("activeServiceStatus") or {}).get("rayClusterName") or "")

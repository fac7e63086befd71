"""Ray Serve on the active RayCluster of a RayService: where it is, and what its answers hold of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.names import ENGINE_DEPLOYMENT

Deployment = Mapping[str, Any]


@dataclass(frozen=True)
class ActiveServe:
    """A RayService, its active RayCluster, and Ray's dashboard there."""

    rayservice: Mapping[str, Any]
    ray_cluster: Mapping[str, Any]
    dashboard: Dashboard


def active_serve(cluster: Cluster, rayservice: Mapping[str, Any]) -> ActiveServe:
    """Where Serve runs. Raises UserError where no RayCluster is active."""
    active = active_cluster(rayservice)
    if not active:
        raise UserError("the RayService has no active RayCluster")
    ray_cluster = cluster.get(kuberay.RAY_CLUSTER, active, rayservice["metadata"]["namespace"])
    return ActiveServe(rayservice, ray_cluster, dashboard_of(cluster, ray_cluster))


def active_cluster(rayservice: Mapping[str, Any]) -> str:
    """The name of the RayCluster that serves; empty if there is none."""
    return str(((rayservice.get("status") or {}).get("activeServiceStatus") or {}).get("rayClusterName") or "")


def engine_deployments(state: Mapping[str, Any]) -> list[tuple[str, Deployment]]:
    """The deployments of models with their names, in Serve's state."""
    return [
        (name, deployment)
        for application in (state.get("applications") or {}).values()
        for name, deployment in (application.get("deployments") or {}).items()
        if name.startswith(ENGINE_DEPLOYMENT)
    ]


def running_replicas(deployment: Deployment) -> list[Mapping[str, Any]]:
    """Those of a deployment that run."""
    return [one for one in deployment.get("replicas") or () if one.get("state") == "RUNNING"]

"""Whether a service answers requests now, whether it ever did, and since when."""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.raycluster import RUNNING, RayCluster
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.serve_state import Deployment, Replica


def is_serving(context: ServiceContext) -> bool:
    """Whether requests are answered now: the service has addresses, and an application of the active cluster runs."""
    if not context.by_serve:
        # Before all of its servers were ready once, the cluster does not count as active.
        return context.endpoints > 0 and any(cluster.serving for cluster in context.clusters)
    active = context.active
    if active is None or context.endpoints == 0 or context.service is None:
        return False
    head_ready = active.head is not None and active.head.ready
    if active.answers_without_head and not (head_ready and active.serve.applications):
        # Of Serve the head alone tells, and a new one knows nothing of it at first.
        return True
    if not active.serve.applications and active.serve.error and context.service.upgrading:
        # The operator blanks its copy during an upgrade: then Ready and a head that is well are all there is.
        return context.service.ready.get("status") == "True" and head_ready
    if active.serve.from_status and not head_ready:
        return False
    return active.serving


def has_served(context: ServiceContext) -> bool:
    """Whether the service has ever had an address to answer at. KubeRay's condition Ready remembers it."""
    service = context.service
    if service is None or not service.active:
        return False
    if not context.by_serve:
        return True
    return service.ready.get("status") == "True" or service.ready.get("reason") == kuberay.LOST_ADDRESSES


def serving_since(context: ServiceContext) -> datetime | None:
    """When a service that serves began to: KubeRay's Ready, or later if an upgrade ended or replicas were lost since.

    Ready stays True while the head's proxy alone is there, so it does not tell an outage. A replica serves at the
    earliest when it was started and its pod was ready.
    """
    service, active = context.service, context.active
    if service is None or active is None:
        return None
    if not context.by_serve:
        changes = (fields.when(pod.condition("Ready"), "lastTransitionTime") for pod in active.ready_servers)
        return min((moment for moment in changes if moment is not None), default=None)
    upgrade = fields.condition(service.item, "UpgradeInProgress")
    ended = fields.when(upgrade, "lastTransitionTime") if upgrade.get("status") == "False" else None
    began = [fields.when(service.ready, "lastTransitionTime"), ended]
    if not active.serve.from_status:
        began += [_running_since(active, deployment) for deployment in active.serve.deployments]
    return max((moment for moment in began if moment is not None), default=None)


def _running_since(cluster: RayCluster, deployment: Deployment) -> datetime | None:
    """When the first of the running replicas started."""
    moments = [replica_since(cluster, replica) for replica in deployment.replicas if replica.state in RUNNING]
    return min((moment for moment in moments if moment is not None), default=None)


def replica_since(cluster: RayCluster, replica: Replica) -> datetime | None:
    """When a running replica began to serve, at the earliest: it was started, and its pod was ready."""
    pod = next((one for one in cluster.live_pods if one.name == replica.pod), None)
    ready = fields.when(pod.condition("Ready"), "lastTransitionTime") if pod is not None and pod.ready else None
    return max((moment for moment in (replica.started, ready) if moment is not None), default=None)

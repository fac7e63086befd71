"""Stop the replicas of a service before its pods are deleted.

If all pods are deleted at once, Ray's head ends first, and the workers stay, with their GPUs, although they have no
requests: their Ray waits until Serve has moved replicas and proxies away, at most RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S
(ray/_private/node.py of Ray 2.60). Serve's proxies stay for 30 s, as long as the head; then nothing ends them until Ray
accepts the loss of the GCS, 60 s later. So Serve stops the replicas first, each as soon as it has answered its
requests: it deletes applications that its configuration no longer has. Pods without replicas have nothing to wait
for, and are deleted with a short grace period: a kubelet does not shorten one that has started (seen with Kubernetes
1.36).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.managed_fields import applied_manifest
from rayllm_ctl.cluster.ray.active import active_cluster
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.cluster.ray.serve import read_state, unread
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.serveconfig.applied import FIELD

POLL_SECONDS = 0.5
QUIET_SECONDS = 2.0
"""Seconds for idle replicas to stop, before a note is shown."""

PATIENCE_SECONDS = 15.0
"""How long KubeRay may take to send the configuration to Serve; its operator may be down."""

GRACE_SECONDS = 2
"""The grace period of pods without replicas."""

_NO_APPLICATIONS = "applications: []\n"
_DELETING = "DELETING"


class Ending:
    """Stops the replicas of one service.

    begun: the service may have no applications by now. emptied: the RayClusters without replicas.
    """

    def __init__(self, cluster: Cluster, kind: WorkloadKind) -> None:
        self._cluster, self._kind = cluster, kind
        self.begun = False
        self.emptied: frozenset[str] = frozenset()

    def end_replicas(self, service: Mapping[str, Any], deadline: float) -> Iterator[Noted]:
        """Have Serve stop the replicas of `service`, each after its requests.

        If that is not possible, as during an upgrade, or if Serve does not answer, nothing is emptied, and Ray stops
        the pods. deadline: time.monotonic() after which the replicas are not waited for.
        """
        clusters = self._kind.clusters_of(service)
        if self._kind.is_cluster or len(clusters) != 1 or kuberay.is_suspended(service):
            return
        name = service["metadata"]["name"]
        try:
            if (yield from self._end(service, clusters[0], deadline)):
                self.emptied = frozenset(clusters)
        except NotFoundError:
            return
        except UserError as error:
            yield Noted(f"the replicas of {name} stop with their pods, which may take minutes: {unread(error)}")

    def _end(self, service: Mapping[str, Any], ray_cluster: str, deadline: float) -> Generator[Noted, None, bool]:
        """Whether all replicas have stopped."""
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        dashboard = dashboard_of(self._cluster, self._cluster.get(kuberay.RAY_CLUSTER, ray_cluster, namespace))
        # On a RayCluster that never served, Serve may not be running.
        if not _statuses(dashboard, started=active_cluster(service) == ray_cluster):
            return True
        manifest = applied_manifest(service)
        if manifest is None:
            yield Noted(f"{name} was not applied by rayllm-ctl: its replicas stop with their pods")
            return False
        manifest["spec"] = {**manifest["spec"], FIELD: _NO_APPLICATIONS}
        unchanged = {self._kind.name: int(service["metadata"].get("generation") or 0)}
        self.begun = True
        for _ in apply(self._cluster, [manifest], unchanged=unchanged):
            pass  # the deletion itself is reported for the service
        return (yield from _wait(dashboard, name, deadline))


def _wait(dashboard: Dashboard, name: str, deadline: float) -> Generator[Noted, None, bool]:
    begun, told = time.monotonic(), False
    while time.monotonic() < deadline:
        statuses = _statuses(dashboard)
        if not statuses:
            return True
        waited = time.monotonic() - begun
        if _DELETING not in statuses and waited > PATIENCE_SECONDS:
            yield Noted(f"KubeRay does not send the change to Serve: the replicas of {name} stop with their pods")
            return False
        if _DELETING in statuses and waited > QUIET_SECONDS and not told:
            told = True
            yield Noted(f"waiting for the replicas of {name} to answer their last requests")
        time.sleep(POLL_SECONDS)
    return False


def _statuses(dashboard: Dashboard, *, started: bool = True) -> list[str]:
    """The status of each existing application. Raises UserError as read_state does.

    One that is being deleted has no deployments in Serve's answer, and stays there until its last replica has ended.
    """
    return [app.status for app in read_state(dashboard, started=started).applications]

"""The changes by the autoscaler between two observations of a service, with their causes.

Serve's state has the new target and its trigger; the load that the autoscaler saw is among Ray's metrics of the head,
which are at most a minute old (ray/serve/_private/autoscaling_state.py of Ray 2.60).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.observed.serve_state import Deployment, read_serve

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_LOAD = re.compile(r"^ray_serve_autoscaling_total_requests\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_TIMEOUT = 2.0


class AutoscalingWatch:
    """Follows the targets of a service's deployments."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._targets: dict[tuple[str, str, str], int] = {}

    def notes(self, snapshot: Snapshot) -> Iterator[Noted]:
        """The changes by the autoscaler since the last call; nothing on the first."""
        for ray_cluster, answer in snapshot.serve.items():
            for deployment in read_serve(answer).deployments:
                if not deployment.autoscaled:
                    continue
                key = (ray_cluster, deployment.app, deployment.name)
                before = self._targets.get(key, deployment.target)
                self._targets[key] = deployment.target
                if deployment.target != before and not deployment.trigger.startswith("CONFIG_UPDATE"):
                    yield Noted(self._why(ray_cluster, deployment, before))

    def _why(self, ray_cluster: str, deployment: Deployment, before: int) -> str:
        wanted = deployment.wanted_requests
        load = self._load(ray_cluster, deployment.app, deployment.name)
        parts = [
            f"{round(load, 1):g} ongoing requests" if load is not None else "number of ongoing requests unknown",
            f"target {wanted:g} per replica" if wanted else "",
            f"{deployment.low} to {deployment.high} replicas",
            f"trigger {deployment.trigger}",
        ]
        change = f"{deployment.name} {before} → {deployment.target} replicas"
        return f"autoscaling: {change}: {', '.join(filter(None, parts))}"

    def _load(self, ray_cluster: str, application: str, deployment: str) -> float | None:
        """The last number of running and waiting requests of Serve's autoscaler; None if it cannot be read."""
        service = f"{kuberay.head_service(ray_cluster)}:metrics"
        path = f"/api/v1/namespaces/{self._namespace}/services/{service}/proxy/metrics"
        try:
            text = self._cluster.request_text(path, doing=f"read the metrics of {ray_cluster}", timeout=_TIMEOUT)
        except UserError:
            return None
        for series in _LOAD.finditer(text):
            labels = dict(_LABEL.findall(series["labels"]))
            if (labels.get("application"), labels.get("deployment")) == (application, deployment):
                return float(series["value"])
        return None

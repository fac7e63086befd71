"""Serve's own state on the RayClusters of a service, asked of their dashboards again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.cluster import serve
from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.dashboard import Dashboard, dashboard_of
from rayllm_ctl.cluster.failures import ForbiddenError
from rayllm_ctl.cluster.parallel import Tasks
from rayllm_ctl.errors import UserError
from rayllm_ctl.model import kuberay

Answers = dict[str, Mapping[str, Any]]
"""By the name of a RayCluster, what Serve says on it; `error` and perhaps `status` where it does not answer."""


class ServeStates:
    """The dashboards are kept as long as they answer, so that the Secret with the token is not read at every look."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dashboards: dict[tuple[str, str], Dashboard] = {}

    def ask(
        self, tasks: Tasks, ray_clusters: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]
    ) -> Answers:
        """What Serve says on those of `ray_clusters` whose head is among `pods` and runs."""
        running = {
            pod["metadata"]["labels"][kuberay.CLUSTER]
            for pod in pods
            if pod["metadata"]["labels"].get(kuberay.NODE_TYPE) == kuberay.HEAD
            and pod["status"].get("phase") == "Running"
        }
        heads = {item["metadata"]["name"]: item for item in ray_clusters if item["metadata"]["name"] in running}
        return dict(zip(heads, tasks.map(self._state, heads.values()), strict=True))

    def dashboard(self, ray_cluster: Mapping[str, Any]) -> Dashboard:
        """That of a RayCluster. Raises UserError as dashboard_of does."""
        head = (ray_cluster.get("status") or {}).get("head") or {}
        key = str(ray_cluster["metadata"]["uid"]), str(head.get("serviceName") or "")
        if key not in self._dashboards:
            self._dashboards[key] = dashboard_of(self._cluster, ray_cluster)
        return self._dashboards[key]

    def _state(self, ray_cluster: Mapping[str, Any]) -> dict[str, Any]:
        try:
            dashboard = self.dashboard(ray_cluster)
        except ForbiddenError as error:
            return {"error": f"not permitted to {error.right}", "status": 403}
        except UserError as error:
            return {"error": error.message}
        answer = serve.state(dashboard)
        if "error" in answer:
            self._dashboards.clear()
        return answer


def denied(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why states could not be read, where a right or the token is lacking."""
    return [
        f"Serve state could not be read: {answer['error']}"
        for answer in answers.values()
        if answer.get("status") in (401, 403)
    ]

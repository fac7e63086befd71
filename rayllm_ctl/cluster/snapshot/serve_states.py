"""Serve's own state on the RayClusters of a service, polled from their dashboards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray import serve
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.cluster.snapshot.container_logs import is_out_of_reach
from rayllm_ctl.cluster.snapshot.events import is_well
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube import kuberay

Answers = dict[str, Mapping[str, Any]]
"""Serve's response by the name of a RayCluster; `error` and perhaps `status` if it does not answer, and `silentNode` if
the node of the head does not either."""

PATIENCE = 2.5
"""Seconds after which a silent dashboard may be on a lost node."""


class ServeStates:
    """Keeps the dashboards as long as they answer, so that the Secret with the token is not read every time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dashboards: dict[tuple[str, str], Dashboard] = {}

    def ask(
        self, tasks: Tasks, ray_clusters: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]
    ) -> Answers:
        """Serve's responses on those of `ray_clusters` that have a running head among `pods`."""
        running = {
            pod["metadata"]["labels"][kuberay.CLUSTER]: pod
            for pod in pods
            if pod["metadata"]["labels"].get(kuberay.NODE_TYPE) == kuberay.HEAD
            and pod["status"].get("phase") == "Running"
        }
        named = {ray_cluster["metadata"]["name"]: ray_cluster for ray_cluster in ray_clusters}
        heads = [(ray_cluster, running[name]) for name, ray_cluster in named.items() if name in running]
        asked = [tasks.submit(self._state, tasks, ray_cluster, head) for ray_cluster, head in heads]
        return {item["metadata"]["name"]: one.result() for (item, _), one in zip(heads, asked, strict=True)}

    def dashboard(self, ray_cluster: Mapping[str, Any]) -> Dashboard:
        """The dashboard of a RayCluster. Raises UserError as dashboard_of does."""
        head = (ray_cluster.get("status") or {}).get("head") or {}
        key = str(ray_cluster["metadata"]["uid"]), str(head.get("serviceName") or "")
        if key not in self._dashboards:
            self._dashboards[key] = dashboard_of(self._cluster, ray_cluster)
        return self._dashboards[key]

    def _state(self, tasks: Tasks, ray_cluster: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
        try:
            dashboard = self.dashboard(ray_cluster)
        except ForbiddenError as error:
            return {"error": f"not permitted to {error.right}", "status": 403}
        except UserError as error:
            return {"error": error.message}
        asked, silent = tasks.submit(serve.state, dashboard), None
        try:
            answer = asked.result(PATIENCE)
        except TimeoutError:
            # In parallel, so that a lost node takes no longer than a slow head.
            silent = tasks.submit(is_out_of_reach, self._cluster, head)
            answer = asked.result()
        if "error" in answer:
            self._dashboards.clear()
            # Kubernetes takes 50 s to detect a lost node, and its pods stay ready until then.
            if answer.get("status", 503) >= 500 and is_well(head):
                silent = silent or tasks.submit(is_out_of_reach, self._cluster, head)
                if silent.result():
                    answer["silentNode"] = head["spec"]["nodeName"]
        return answer


def denied(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why states could not be read if a right or the token is missing."""
    return [
        f"Serve state could not be read: {answer['error']}"
        for answer in answers.values()
        if answer.get("status") in (401, 403)
    ]

"""The pods with vLLM's own servers of a RayCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.model.kube import kuberay


def ready_servers(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    """The ready pods by name: each is a replica."""
    selector = f"{kuberay.CLUSTER}={name},{kuberay.GROUP}={kuberay.SERVERS}"
    pods = [pod for pod in cluster.list("Pod", namespace, label_selector=selector) if _ready(pod)]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)

"""Nodes and their pods in a short form: the facts about the whole cluster for a service's health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError

LIVE_PODS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods that use resources of a node: scheduled and not ended."""


def live_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """Every pod that uses resources, in a short form: owner, requests and node."""
    return [_short_pod(pod) for pod in cluster.list("Pod", field_selector=LIVE_PODS)]


def all_nodes(cluster: Cluster) -> tuple[list[dict[str, Any]], list[dict[str, Any]]] | None:
    """(nodes, pods that use resources) of the whole cluster in a short form; None if not permitted."""
    try:
        return [short_node(node) for node in cluster.list("Node")], live_pods(cluster)
    except ForbiddenError:
        return None


def short_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """A node without its images and volumes, which make up most of its size."""
    status = node.get("status") or {}
    kept = {
        key: status[key] for key in ("capacity", "allocatable", "conditions", "addresses", "nodeInfo") if key in status
    }
    return {**node, "status": kept}


def _short_pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = pod["metadata"], pod["spec"]
    boxes = {
        key: [{"name": container["name"], "resources": container.get("resources") or {}} for container in spec[key]]
        for key in ("containers", "initContainers")
        if spec.get(key)
    }
    keep = ("name", "namespace", "uid", "labels", "deletionTimestamp")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in keep if key in metadata},
        "spec": {**{key: spec[key] for key in ("nodeName", "priority") if key in spec}, **boxes},
        "status": {"phase": (pod.get("status") or {}).get("phase", "")},
    }

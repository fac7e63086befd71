"""Replica bounds of a live service.

KubeRay leaves replicas, minReplicas and maxReplicas out of the hash by which it notices changes of a RayService, and
does not carry them to the RayCluster that runs (ray-project/kuberay#4568, #2331). So they are written to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import NotFoundError
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.labels import MANAGER
from rayllm_ctl.model.workload import WorkloadKind

_BOUNDS = ("minReplicas", "maxReplicas")


def propagate_bounds(cluster: Cluster, kind: WorkloadKind, applied: Mapping[str, Any]) -> Iterator[Applied]:
    """Write the bounds of `applied` (as stored) to its live RayClusters where they differ; yields each that changed.

    Groups are matched by name; one that a RayCluster lacks is KubeRay's to add. `replicas` of a group is the
    autoscaler's and is left alone. Raises ApiError with status 422 when a RayCluster's groups were
    reordered in between: running again succeeds.
    """
    namespace = applied["metadata"]["namespace"]
    for cluster_name in kind.clusters_of(applied):
        try:
            live = cluster.get("RayCluster", cluster_name, namespace)
        except NotFoundError:
            continue  # its upgrade has just ended
        operations = bounds_patch(live, applied)
        if operations:
            cluster.patch(
                "RayCluster", cluster_name, namespace, operations, content_type="application/json-patch+json",
                query=[("fieldManager", MANAGER)],
            )  # fmt: skip
            yield Applied("RayCluster", cluster_name, namespace, "configured")


def bounds_patch(live: Mapping[str, Any], applied: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON patch that gives a live RayCluster the bounds of the RayService `applied`; empty if it has them."""
    config = applied.get("spec", {}).get("rayClusterConfig", {})
    wanted = {group["groupName"]: group for group in config.get("workerGroupSpecs") or ()}
    operations: list[dict[str, Any]] = []
    for index, group in enumerate(live.get("spec", {}).get("workerGroupSpecs") or ()):
        want = wanted.get(group.get("groupName"), {})
        changes = [(key, want[key]) for key in _BOUNDS if key in want and want[key] != group.get(key)]
        if changes:
            # A JSON patch knows groups by position only: the test makes it fail rather than hit another group.
            at = f"/spec/workerGroupSpecs/{index}"
            operations.append({"op": "test", "path": f"{at}/groupName", "value": group["groupName"]})
            operations += [{"op": "add", "path": f"{at}/{key}", "value": value} for key, value in changes]
    return operations

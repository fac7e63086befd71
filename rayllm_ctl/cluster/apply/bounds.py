"""Replica bounds of a live service.

KubeRay leaves replicas, minReplicas and maxReplicas out of the hash by which it detects changes of a RayService, and
does not propagate them to the running RayCluster (ray-project/kuberay#4568, #2331). So they are written to both.

They are written only to the RayCluster that stays: one that is about to be replaced would start unused workers, on the
GPUs that the second one waits for.

A maximum below the number of running workers is written last: Ray's autoscaler stops a worker above it at once, with
its replica and requests (seen with Ray 2.60). It removes workers without replicas when they are idle.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import MANAGER
from rayllm_ctl.model.workload import WorkloadKind

POLL_SECONDS = 2.0
_MAXIMUM = "maxReplicas"
_BOUNDS = ("minReplicas", _MAXIMUM)


def propagate_bounds(
    cluster: Cluster, names: Sequence[str], applied: Mapping[str, Any]
) -> tuple[list[Applied], dict[str, int]]:
    """Write the bounds of `applied` (as stored) to its live RayClusters of these names if they differ.

    Returns the changes, and the number of workers of each group above its new maximum, which is lowered only to that
    number. Groups are matched by name; one that a RayCluster lacks is KubeRay's to add. `replicas` of a
    group is the autoscaler's and is left alone. Raises ApiError with status 422 if a RayCluster's groups were
    reordered in between: a retry succeeds.
    """
    namespace, changed, left = applied["metadata"]["namespace"], list[Applied](), dict[str, int]()
    for live in _live(cluster, names, namespace):
        name, held = live["metadata"]["name"], _workers_above(cluster, live, applied)
        operations = bounds_patch(live, applied, at_least=held)
        if operations:
            cluster.patch(
                "RayCluster", name, namespace, operations, content_type="application/json-patch+json",
                query=[("fieldManager", MANAGER)],
            )  # fmt: skip
            changed.append(Applied("RayCluster", name, namespace, "configured"))
        left |= held
    return changed, left


def outdated(cluster: Cluster, names: Sequence[str], applied: Mapping[str, Any]) -> list[str]:
    """The live RayClusters of `applied` with these names that have different bounds."""
    live = _live(cluster, names, applied["metadata"]["namespace"])
    return [ray_cluster["metadata"]["name"] for ray_cluster in live if bounds_patch(ray_cluster, applied)]


@contextmanager
def keep_propagating(cluster: Cluster, kind: WorkloadKind, applied: Mapping[str, Any]) -> Iterator[list[Applied]]:
    """Repeat `propagate_bounds` in a thread while waiting for the service; the changes are complete at the end.

    The bounds are written to the RayCluster that serves in the end, which is known after KubeRay has processed the
    change. The service is not Ready before that, so the wait reports the rest at its time-out.
    """
    stop, changed = threading.Event(), list[Applied]()
    name, namespace = applied["metadata"]["name"], applied["metadata"]["namespace"]

    def settle() -> None:
        stopped = False
        while not stopped:
            # Once more at the end: the service may have become Ready between two attempts.
            stopped = stop.wait(POLL_SECONDS)
            with suppress(UserError):  # the next attempt may succeed
                live = cluster.get(kind.name, name, namespace)
                if (live.get("status") or {}).get("observedGeneration") != live["metadata"]["generation"]:
                    continue
                done, left = propagate_bounds(cluster, kind.clusters_of(live)[-1:], live)
                changed.extend(done)
                if not left:
                    return

    thread = threading.Thread(target=settle, daemon=True)
    thread.start()
    try:
        yield changed
    finally:
        stop.set()
        thread.join(timeout=POLL_SECONDS)


def _workers_above(cluster: Cluster, live: Mapping[str, Any], applied: Mapping[str, Any]) -> dict[str, int]:
    """Workers of each group of a live RayCluster with more workers than its new, lower maximum.

    Its pods are counted: `replicas` of a group may be less, as KubeRay creates at least the minimum.
    """
    wanted = _groups(cluster_spec(applied))
    lower = {
        name: wanted[name][_MAXIMUM]
        for name, group in _groups(live.get("spec", {})).items()
        if _MAXIMUM in group and wanted.get(name, {}).get(_MAXIMUM, group[_MAXIMUM]) < group[_MAXIMUM]
    }
    if not lower:
        return {}
    metadata = live["metadata"]
    pods = cluster.list("Pod", metadata["namespace"], label_selector=f"{kuberay.CLUSTER}={metadata['name']}")
    workers = Counter(
        pod["metadata"]["labels"].get(kuberay.GROUP) for pod in pods if "deletionTimestamp" not in pod["metadata"]
    )
    return {name: workers[name] for name, maximum in lower.items() if workers[name] > maximum}


def _live(cluster: Cluster, names: Sequence[str], namespace: str) -> Iterator[dict[str, Any]]:
    for name in names:
        try:
            yield cluster.get("RayCluster", name, namespace)
        except NotFoundError:
            continue  # its upgrade has just ended


def _groups(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {group.get("groupName", ""): group for group in spec.get("workerGroupSpecs") or ()}


def bounds_patch(
    live: Mapping[str, Any], applied: Mapping[str, Any], at_least: Mapping[str, int] | None = None
) -> list[dict[str, Any]]:
    """The JSON patch that gives a live RayCluster the bounds of the RayService `applied`; empty if it has them.

    at_least: by group, a lower limit for its maximum.
    """
    least = at_least or {}
    wanted = _groups(cluster_spec(applied))
    operations: list[dict[str, Any]] = []
    for index, group in enumerate(live.get("spec", {}).get("workerGroupSpecs") or ()):
        name = group.get("groupName", "")
        want = {key: value for key, value in wanted.get(name, {}).items() if key in _BOUNDS}
        if name in least:
            want[_MAXIMUM] = max(want[_MAXIMUM], least[name])
        changes = [(key, want[key]) for key in _BOUNDS if key in want and want[key] != group.get(key)]
        if changes:
            # A JSON patch addresses groups by position: the test operation makes it fail if groups were reordered.
            at = f"/spec/workerGroupSpecs/{index}"
            operations.append({"op": "test", "path": f"{at}/groupName", "value": name})
            operations += [{"op": "add", "path": f"{at}/{key}", "value": value} for key, value in changes]
    return operations

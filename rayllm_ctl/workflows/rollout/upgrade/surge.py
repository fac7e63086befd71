"""One extra replica of a model while its replicas are replaced: its manifest, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.errors import UserError
from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.scaling import Bounds
from rayllm_ctl.serveconfig import bounds
from rayllm_ctl.serveconfig.applied import applied_config
from rayllm_ctl.workflows.rollout.scale import scaled_service
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

SURGE = 2
"""Replicas of a model during the replacement: Serve replaces one at a time below ten."""


def raised(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """The changed service with two replicas of each model that has one and restarts, and by model the pods of each
    worker group per replica. Raises UserError if that does not help.
    """
    _, manifest = workload(manifests)
    old, new = applied_config(service.live), applied_config(manifest)
    before = {(one.id, one.name) for one in bounds.models(old)}
    changed, pods = dict(manifest), dict[str, dict[str, int]]()
    for model in bounds.models(new):
        if model.bounds.low >= SURGE or _application(old, model.name) == _application(new, model.name):
            continue
        if (model.id, model.name) not in before:
            raise _no_surge(service, f"model {model.id} is new")
        wanted = Bounds(SURGE, max(SURGE, model.bounds.high))
        scaled = scaled_service(service, changed, wanted.low, wanted.high, model.id)[1]
        changed = scaled.manifest
        pods[model.id] = {group: after.low // SURGE for group, (_, after) in scaled.pods.items()}
    if not pods or {name for _, name in before} != {one.name for one in bounds.models(new)}:
        raise _no_surge(service, "no model with one replica restarts")
    return changed, pods


def _application(config: Any, name: str) -> Any:
    return next((one for one in config.get("applications") or () if one.get("name") == name), None)


def place(cluster: Cluster, manifest: Mapping[str, Any], pods: Mapping[str, Mapping[str, int]]) -> Checked:
    """Whether the nodes have capacity for one more replica of each model."""
    found = all_nodes(cluster)
    if found is None:
        return Checked("capacity", None, "not permitted to list nodes")
    count = {group: each for groups in pods.values() for group, each in groups.items()}
    config = cluster_spec(manifest)
    groups = [
        {**group, "minReplicas": count[group["groupName"]], "replicas": count[group["groupName"]]}
        for group in config["workerGroupSpecs"]
        if group["groupName"] in count
    ]
    return capacity_check({"spec": {**config, "workerGroupSpecs": groups}}, *found)


def _no_surge(service: ServiceRef, why: str) -> UserError:
    return UserError(
        f"{service.label}: an extra replica would not keep the service available: {why}; nothing was applied",
        hint="--upgrade new-cluster    # a second RayCluster serves before the first is deleted",
    )

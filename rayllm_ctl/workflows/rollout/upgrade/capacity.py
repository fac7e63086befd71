"""The numbers of replicas of two RayClusters of a service that fit on the nodes at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.scaling import Bounds, with_group_bounds
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.serveconfig import bounds
from rayllm_ctl.serveconfig.applied import applied_config
from rayllm_ctl.workflows.rollout.scale import worker_bounds
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.serveconfig.bounds import ScalableModel

ReplicaCounts = Mapping[str, int]
"""Replicas by model."""


class Fitting:
    """The RayCluster `active` of a RayService, the second one that `manifest` starts, and the nodes.

    now: replicas of each model that have workers; wanted: those of the second RayCluster when it takes over. `old` and
    `new` are the models. Raises UserError if replicas are not in the form that rayllm-ctl renders.
    """

    def __init__(
        self, service: ServiceRef, active: str, manifest: Mapping[str, Any],
        nodes: Sequence[Object], pods: Sequence[Object],
    ) -> None:  # fmt: skip
        self._manifest, self._nodes = manifest, nodes
        # Another RayCluster that has not taken over is replaced by the second one: its pods are deleted.
        going = set(service.kind.clusters_of(service.live)) - {active}
        self._pods = [pod for pod in pods if ray_cluster(pod, service.namespace) not in going]
        self._workers: dict[str, list[str]] = {}
        for pod in self._pods:
            if ray_cluster(pod, service.namespace) == active:
                group = str(pod["metadata"]["labels"].get(kuberay.GROUP))
                self._workers.setdefault(group, []).append(str(pod["metadata"]["uid"]))
        self.old, self.new = (
            {one.id: one for one in bounds.models(applied_config(side))} for side in (service.live, manifest)
        )
        self._old_groups = {one.id: _group(service, service.live, one) for one in self.old.values()}
        self._new_groups = {one.id: _group(service, manifest, one) for one in self.new.values()}
        self.now = {
            model: len(self._workers.get(group, ())) // each for model, (group, each) in self._old_groups.items()
        }
        self.wanted = {
            model: max(one.bounds.low, min(self.now.get(model, 0), one.bounds.high)) for model, one in self.new.items()
        }

    def check(self, first: ReplicaCounts | None, second: ReplicaCounts) -> Checked:
        """Whether `second` fits next to `first`; None: after the running RayCluster is deleted."""
        gone: set[str] = set()
        for group, workers in self._workers.items():
            gone |= set(workers) if first is None else set()
            for model, (own, each) in self._old_groups.items():
                if first is not None and own == group:
                    gone |= set(workers[first[model] * each :])
        pods = [pod for pod in self._pods if pod["metadata"]["uid"] not in gone]
        return capacity_check(self._second(second), self._nodes, pods)

    def most(self) -> tuple[dict[str, int], dict[str, int]] | None:
        """The most replicas of both that fit, with at least one of each model; None if that is not possible.

        Maximizes the minimum of both: so many replicas are always available.
        """
        for most in range(max([*self.now.values(), *self.wanted.values()], default=0) - 1, 0, -1):
            first, second = (
                {model: min(count, most) for model, count in side.items()} for side in (self.now, self.wanted)
            )
            if self.check(first, second).ok:
                for replicas, limit in ((first, self.now), (second, self.wanted)):
                    for model in replicas:
                        self._raise(replicas, model, limit[model], first, second)
                return first, second
        return None

    def _raise(
        self, replicas: dict[str, int], model: str, limit: int, first: ReplicaCounts, second: ReplicaCounts
    ) -> None:
        """Raise one number in `replicas`, which is `first` or `second`, as far as the capacity allows."""
        while replicas[model] < limit:
            replicas[model] += 1
            if not self.check(first, second).ok:
                replicas[model] -= 1
                return

    def _second(self, replicas: ReplicaCounts) -> Mapping[str, Any]:
        """The second RayCluster with these replicas."""
        config = cluster_spec(self._manifest)
        wanted: dict[str, Bounds] = {}
        for model, (group, each) in self._new_groups.items():
            wanted[group] = Bounds(replicas[model] * each, replicas[model] * each)
        groups = with_group_bounds(config["workerGroupSpecs"], wanted)
        return with_cluster_spec(self._manifest, {**config, "workerGroupSpecs": groups})


def ray_cluster(pod: Object, namespace: str) -> str:
    """The RayCluster of a pod in `namespace`; empty for other pods."""
    metadata = pod["metadata"]
    return (
        str((metadata.get("labels") or {}).get(kuberay.CLUSTER, "")) if metadata.get("namespace") == namespace else ""
    )


def _group(service: ServiceRef, manifest: Mapping[str, Any], model: ScalableModel) -> tuple[str, int]:
    """The worker group of a model, and the number of its pods per replica."""
    name, bounds = worker_bounds(service, manifest, model)
    return name, bounds.high // model.bounds.high

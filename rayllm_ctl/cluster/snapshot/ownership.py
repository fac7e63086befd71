"""The objects that KubeRay created for a workload, identified by names and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay


@dataclass(frozen=True)
class OwnedResources:
    """A workload (None after its deletion), its existing RayClusters, and the names of earlier ones.

    `named`: RayClusters named in its status or seen before. is_cluster: it is a RayCluster itself.
    """

    name: str
    clusters: tuple[dict[str, Any], ...]
    workload: Mapping[str, Any] | None
    named: frozenset[str] = frozenset()
    is_cluster: bool = False

    @property
    def alive(self) -> bool:
        """Whether the workload exists and is not being deleted."""
        return self.workload is not None and "deletionTimestamp" not in self.workload["metadata"]

    @property
    def cluster_names(self) -> frozenset[str]:
        """The existing RayClusters, and those known by name."""
        own = {self.name} if self.is_cluster else set()
        return self.named | own | {ray_cluster["metadata"]["name"] for ray_cluster in self.clusters}

    def owns_pod(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod runs, or ends, for this workload.

        Pods outlive their RayCluster and have no label of the workload. For a deleted RayCluster the name decides, and
        only for terminating pods: another client's RayCluster may happen to have such a name.
        """
        ray_cluster = str((pod["metadata"].get("labels") or {}).get(kuberay.CLUSTER, ""))
        if ray_cluster in self.cluster_names:
            return True
        return "deletionTimestamp" in pod["metadata"] and kuberay.is_child_cluster(ray_cluster, self.name)

    def concerns(self, name: str) -> bool:
        """Whether an event about an object called `name` is about this workload. Events outlive their objects."""
        if self.is_cluster:
            return kuberay.is_part(name, self.name)
        if name == self.name or kuberay.is_child(name, self.name):
            return True
        return any(name == cluster or name.startswith(f"{cluster}-") for cluster in self.cluster_names)

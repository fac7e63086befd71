"""Which logs of a service are meant, and which of them there are now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.snapshot.log_sources import (
    Found,
    download_log_pods,
    of_containers,
    of_replicas,
    operator_pods,
    pods_of,
)
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.workload import WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.snapshot.log_sources import Found

LogPart = Literal["replicas", "engine", "head", "operator", "download"]

_MOST_HINTS = 5

_INSTEAD = "this is the log of the pod's container, and replicas in it may have others"


@dataclass(frozen=True)
class LogChoice:
    """The logs of `part` of a service, or of `pod` alone. previous: of the previous run of containers.

    container: whether that of `pod` is meant too, beside the replicas in it; None: only while it has none.
    """

    cluster: Cluster
    kind: WorkloadKind
    name: str
    namespace: str
    part: LogPart
    pod: str | None = None
    previous: bool = False
    container: bool | None = None

    def find(self, workload: dict[str, Any]) -> Found:
        """The current logs; empty if `pod` is gone. Raises UserError."""
        if self.part == "operator":
            return Found(of_containers(self.cluster, operator_pods(self.cluster)), frozenset({""}))
        if self.part == "download":
            pods = download_log_pods(self.cluster, self.name, self.namespace)
            return Found(of_containers(self.cluster, pods), frozenset({""}))
        if self.pod is not None:
            return self._of_pod(workload, self.pod)
        if self.part == "head" or self.previous or self.kind.is_cluster:
            chosen = [one for one in self.pods(workload) if self._is_wanted(one)]
            return Found(of_containers(self.cluster, chosen), frozenset(self.kind.clusters_of(workload)))
        return of_replicas(self.cluster, self.kind, workload, "engine" if self.part == "engine" else "serve")

    def pods(self, workload: dict[str, Any]) -> list[dict[str, Any]]:
        """The pods of the service."""
        return pods_of(self.cluster, self.kind, workload)

    def has_pod(self) -> bool:
        """Whether `pod` exists, be it in a RayCluster that the service has left."""
        return bool(self.cluster.list("Pod", self.namespace, field_selector=f"metadata.name={self.pod}"))

    def nothing(self, workload: dict[str, Any], found: Found) -> UserError:
        """Why nothing was found, or is known."""
        status = f"rayllm-ctl status {self.name} -n {self.namespace}"
        if found.unread:
            return UserError(
                "\n".join([*found.unread.values(), f"which replicas {self.name} has is unknown"]),
                hint=(
                    f"{status}    # why Serve cannot be asked",
                    f"rayllm-ctl logs {self.name} -n {self.namespace} --head    # the container in which Serve starts",
                ),
            )
        if self.part == "operator":
            return UserError("no pod of the KubeRay operator can be found", hint=status)
        if self.part == "download":
            return UserError(f"{self.name} has no pod that downloads a model", hint=status)
        names = [_name(one) for one in self.pods(workload)]
        if self.pod is not None:
            close = nearest(self.pod, names)
            first = [close] if close else []
            shown = [*first, *(one for one in names if one not in first)][:_MOST_HINTS]
            return UserError(
                f'{self.name} has no pod "{self.pod}"',
                hint=[f"rayllm-ctl logs {self.name} -n {self.namespace} --replica {one}" for one in shown] or status,
            )
        hints = [status]
        if names and self.part != "head":
            hints.append(f"rayllm-ctl logs {self.name} -n {self.namespace} --head")
        return UserError(f"{self.name} has no {'head' if self.part == 'head' else 'replicas'} now", hint=hints)

    def _of_pod(self, workload: dict[str, Any], pod: str) -> Found:
        chosen = [one for one in self.pods(workload) if _name(one) == pod]
        containers = Found(of_containers(self.cluster, chosen), frozenset(self.kind.clusters_of(workload)))
        if not chosen or self.previous or self.kind.is_cluster:
            return containers
        of = str((chosen[0]["metadata"].get("labels") or {}).get(kuberay.CLUSTER, ""))
        try:
            found = of_replicas(self.cluster, self.kind, workload, "serve")
        except UserError as error:
            if self.container is None:
                return replace(containers, unread={of: f"{error.message}; {_INSTEAD}"})
            raise
        mine = [one for one in found.sources if one.pod == pod]
        if self.container is None and not mine:
            why = found.unread.get(of)
            return replace(containers, unread={of: f"{why}; {_INSTEAD}"}) if why else containers
        if self.container is None:
            return Found(mine, found.clusters, found.unread)
        return Found([*mine, *(containers.sources if self.container else ())], found.clusters, found.unread)

    def _is_wanted(self, pod: dict[str, Any]) -> bool:
        labels = pod["metadata"].get("labels") or {}
        if self.part == "head":
            return bool(labels.get(kuberay.NODE_TYPE) == kuberay.HEAD)
        if self.kind.is_cluster:
            return bool(labels.get(kuberay.GROUP) == kuberay.SERVERS)
        return bool(labels.get(kuberay.NODE_TYPE) == "worker")


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])

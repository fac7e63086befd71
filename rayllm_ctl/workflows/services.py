"""Which kind of object the service of a name is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def kind_of(cluster: Cluster, name: str, namespace: str) -> WorkloadKind:
    """The kind of the service `name`: the first whose object of that name is a service.

    Without an object, pods tell of a RayCluster that was deleted: they outlive it. What is not there at all counts as a
    RayService, the kind of which most services are. Raises ForbiddenError where RayServices cannot be read and there is
    no RayCluster of the name.
    """
    unread: ForbiddenError | None = None
    for kind in WORKLOADS.values():
        try:
            found = _object(cluster, kind, name, namespace)
        except ForbiddenError as error:
            unread = unread or (error if kind is RAY_SERVICE else None)
            continue
        if found is not None and kind.is_service(found):
            return kind
    if unread is not None:
        raise unread
    try:
        pods = cluster.list("Pod", namespace, label_selector=kuberay.part_of([name]))
    except ForbiddenError:
        pods = []  # nobody who needs them continues without the right to list them
    return RAY_CLUSTER if pods else RAY_SERVICE


def kind_in(snapshot: Snapshot, name: str, namespace: str) -> WorkloadKind:
    """The same for a Snapshot."""
    mine = [
        item for item in snapshot.objects
        if (item.get("metadata") or {}).get("name") == name and item["metadata"].get("namespace") == namespace
    ]  # fmt: skip
    for kind in WORKLOADS.values():
        if any(item.get("kind") == kind.name and kind.is_service(item) for item in mine):
            return kind
    # Of several that it may be, one of which it is not known.
    return next((kind for kind in WORKLOADS.values() if kind.name in snapshot.unread), RAY_SERVICE)


def reject_other_kind(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> Iterator[Checked]:
    """Raise UserError where the name of a service to be applied is that of an object of another kind.

    KubeRay gives the Services of both the same names. A check of what could not be read.
    """
    for other in WORKLOADS.values():
        if other is kind:
            continue
        try:
            found = _object(cluster, other, name, namespace)
        except ForbiddenError as error:
            reason = f"not permitted to {error.right}"
            yield Checked("name", None, f"whether a {other.name} {name} exists is unknown: {reason}")
            continue
        if found is not None:
            what = f"{other.name.lower()}/{name}"
            deletion = f"rayllm-ctl delete {name} -n {namespace}"
            if not other.is_service(found):
                deletion = f"kubectl delete {other.name.lower()} {name} -n {namespace}"
            raise UserError(
                f"{what} exists in namespace {namespace}: a {kind.name} of the same name cannot run beside it",
                hint=(f"{deletion}   (the service is down until the new one is ready)", "--name NAME   (another name)"),
            )


def _object(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> dict[str, Any] | None:
    return find(cluster, kind, name, namespace)

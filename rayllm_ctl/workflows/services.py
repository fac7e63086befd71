"""Look up a service by name: its kind, and the facts that a command reads once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.permissions import Permissions, explained, not_permitted
from rayllm_ctl.cluster.lookup.services import find, not_found
from rayllm_ctl.cluster.preflight.preflight import preflight
from rayllm_ctl.cluster.preflight.versions import operators, version_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import Activity, Right, Rights, WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class ServiceRef:
    """A service in the cluster, read once per command.

    item: its object, if it exists. permissions: what the user may do in the namespace. kuberay: the version of
    the operator, empty: unknown. around: by kind, the operator's Deployments and the namespace, as far as they were
    read. checks: of KubeRay and the namespace.
    """

    cluster: Cluster
    kind: WorkloadKind
    name: str
    namespace: str
    item: dict[str, Any] | None
    permissions: Permissions
    kuberay: str = ""
    around: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    checks: tuple[Checked, ...] = ()

    @property
    def label(self) -> str:
        """As in rayservice/qwen."""
        return f"{self.kind.name.lower()}/{self.name}"

    @property
    def live(self) -> dict[str, Any]:
        """Its object, where a command has made sure that there is one."""
        if self.item is None:
            raise LookupError(f"{self.label} has no object")
        return self.item

    def require_rights(self, rights: Sequence[Right]) -> None:
        """Raise ClusterError, which names all that are missing, unless the user has `rights` in the namespace."""
        if lacking := self.permissions.missing(rights):
            raise not_permitted(self.cluster, self.namespace, lacking)


def read_service_ref(
    cluster: Cluster, kind: WorkloadKind, name: str, namespace: str, needed: Sequence[Right],
    item: dict[str, Any] | None = None,
) -> ServiceRef:  # fmt: skip
    """The service `name` of a kind. item: its object, if it has just been read.

    Raises UserError if the cluster cannot run it, or the user lacks a required right; see preflight.
    """
    found = preflight(cluster, kind.name, name, namespace, needed, existing=item)
    return ServiceRef(
        cluster, kind, name, namespace, found.existing, found.permissions, found.kuberay, found.around, found.checks
    )


def read_live_service_ref(
    cluster: Cluster, name: str, namespace: str, *activities: Activity, declared: Rights | None = None
) -> ServiceRef:
    """The service `name` for a command that changes its object and applies no other: neither the namespace is read nor,
    for a RayCluster, the operator.

    activities: what the command does. declared: the rights that it needs in place of those of its activities where an
    LLMService declares the service; None: the same.

    Raises NotFoundError, with the nearest name, if there is no such service, and ClusterError if the user lacks a right
    that is needed.
    """
    kind, item = require_service(cluster, name, namespace, RAY_SERVICE.rights_for(activities[0]))
    service = ServiceRef(cluster, kind, name, namespace, item, Permissions(cluster, namespace))
    needed = kind.rights_for(*activities).needed
    if declared is not None and declared_by(item) is not None:
        needed = declared.needed
    if kind.is_cluster:
        service.require_rights(needed)
        return service
    with Tasks() as tasks:
        listed = tasks.submit(operators, cluster)
        service.require_rights(needed)
        found = listed.result()
    around = {} if found is None else {"Deployment": found}
    return replace(service, kuberay=version_of(found or ()) or "", around=around)


def require_service(cluster: Cluster, name: str, namespace: str, rights: Rights) -> tuple[WorkloadKind, dict[str, Any]]:
    """The kind and the object of the service `name`; NotFoundError, with the nearest name, if there is none.

    rights: what the command needs, all named where the first is missing.
    """
    with explained(cluster, namespace, rights):
        kind, found = find_service(cluster, name, namespace)
        if found is None:
            raise not_found(cluster, kind, name, namespace)
        return kind, found


def find_service(cluster: Cluster, name: str, namespace: str) -> tuple[WorkloadKind, dict[str, Any] | None]:
    """The kind of the service `name`, the first whose object of that name is a service, and that object.

    Without an object, pods indicate a deleted RayCluster: they outlive it. A service that does not exist counts as a
    RayService, the most common kind. Raises ForbiddenError if RayServices cannot be read and there is
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
            return kind, found
    if unread is not None:
        raise unread
    try:
        pods = cluster.list("Pod", namespace, label_selector=kuberay.part_of([name]))
    except ForbiddenError:
        pods = []  # callers that need pods require the right to list them
    return RAY_CLUSTER if pods else RAY_SERVICE, None


def kind_in(snapshot: Snapshot, name: str, namespace: str) -> WorkloadKind:
    """The same for a Snapshot."""
    for kind in WORKLOADS.values():
        found = snapshot.find(kind.name, name, namespace)
        if found is not None and kind.is_service(found):
            return kind
    # The kind is unknown if one of several cannot be read.
    return next((kind for kind in WORKLOADS.values() if kind.name in snapshot.unread), RAY_SERVICE)


def reject_other_kind(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> Iterator[Checked]:
    """Raise UserError if an object of another kind has the name of a service to be applied.

    KubeRay gives the Services of both the same names. Returns a check for what could not be read.
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
                hint=(
                    f"{deletion}    # the service is down until the new one is ready",
                    "--name NAME    # another name",
                ),
            )


def _object(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> dict[str, Any] | None:
    return find(cluster, kind, name, namespace)

"""Look up a service by name: its kind, and the facts that a command reads once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.cluster.preflight.preflight import preflight
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import Right, WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.api.permissions import Permissions


@dataclass(frozen=True)
class LiveService:
    """The object of a service."""

    kind: WorkloadKind
    item: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.item["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.item["metadata"]["namespace"])

    @property
    def label(self) -> str:
        """As in rayservice/qwen."""
        return f"{self.kind.name.lower()}/{self.name}"


@dataclass(frozen=True)
class ServiceRef:
    """A service in the cluster, read once per command.

    item: its object, if it exists. kuberay: the version of the operator, empty: unknown. around: by kind, the
    operator's Deployments and the namespace, if they may be read. permissions: what the user may do in the
    namespace. checks: of KubeRay and the namespace.
    """

    cluster: Cluster
    kind: WorkloadKind
    name: str
    namespace: str
    item: dict[str, Any] | None
    kuberay: str
    around: Mapping[str, Sequence[dict[str, Any]]]
    permissions: Permissions
    checks: tuple[Checked, ...]

    @property
    def live(self) -> LiveService | None:
        """The service, if its object exists."""
        return None if self.item is None else LiveService(self.kind, self.item)


def read_service_ref(
    cluster: Cluster, kind: WorkloadKind, name: str, namespace: str, needed: Sequence[Right],
    item: dict[str, Any] | None = None,
) -> ServiceRef:  # fmt: skip
    """The service `name` of a kind. item: its object, if it has just been read.

    Raises UserError if the cluster cannot run it, or the user lacks a required right; see preflight.
    """
    checks = preflight(cluster, kind.name, name, namespace, needed, existing=item)
    return ServiceRef(
        cluster,
        kind,
        name,
        namespace,
        checks.existing,
        checks.kuberay,
        checks.around,
        checks.permissions,
        checks.checks,
    )


def kind_of(cluster: Cluster, name: str, namespace: str) -> WorkloadKind:
    """The kind of the service `name`; see find_service."""
    return find_service(cluster, name, namespace)[0]


def find_service(cluster: Cluster, name: str, namespace: str) -> tuple[WorkloadKind, dict[str, Any] | None]:
    """The kind of the service `name`, the first whose object of that name is a service, and that object.

    Without an object, pods indicate a deleted RayCluster: they outlive it. A service that does not exist counts as a
    RayService, the most common kind. Raises ForbiddenError if RayServices cannot be read and there is
    no RayCluster of the name.
    """
    unread: ForbiddenError | None = None
    for kind in WORKLOADS.values():
        try:
            stored = _object(cluster, kind, name, namespace)
        except ForbiddenError as error:
            unread = unread or (error if kind is RAY_SERVICE else None)
            continue
        if stored is not None and kind.is_service(stored):
            return kind, stored
    if unread is not None:
        raise unread
    try:
        pods = cluster.list("Pod", namespace, label_selector=kuberay.part_of([name]))
    except ForbiddenError:
        pods = []  # callers that need pods require the right to list them
    return RAY_CLUSTER if pods else RAY_SERVICE, None


def kind_in(snapshot: Snapshot, name: str, namespace: str) -> WorkloadKind:
    """The same for a Snapshot."""
    mine = [
        item for item in snapshot.objects
        if (item.get("metadata") or {}).get("name") == name and item["metadata"].get("namespace") == namespace
    ]  # fmt: skip
    for kind in WORKLOADS.values():
        if any(stored.get("kind") == kind.name and kind.is_service(stored) for stored in mine):
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
            stored = _object(cluster, other, name, namespace)
        except ForbiddenError as error:
            reason = f"not permitted to {error.right}"
            yield Checked("name", None, f"whether a {other.name} {name} exists is unknown: {reason}")
            continue
        if stored is not None:
            label = f"{other.name.lower()}/{name}"
            deletion = f"rayllm-ctl delete {name} -n {namespace}"
            if not other.is_service(stored):
                deletion = f"kubectl delete {other.name.lower()} {name} -n {namespace}"
            raise UserError(
                f"{label} exists in namespace {namespace}: a {kind.name} of the same name cannot run beside it",
                hint=(f"{deletion}   (the service is down until the new one is ready)", "--name NAME   (another name)"),
            )


def _object(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> dict[str, Any] | None:
    return find(cluster, kind, name, namespace)

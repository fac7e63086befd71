"""The health of services: one, all of a namespace or of all namespaces, or one in a recorded bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.snapshot.overview import collect_all
from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.observed.health import Health, Snapshot, State
from rayllm_ctl.workflows.observe.bundle.read import bundled_service, namespace_of, open_bundle, read_bundle
from rayllm_ctl.workflows.observe.wait import repeat
from rayllm_ctl.workflows.services import find_service, kind_in

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

HEALTHY_STATES = frozenset({State.READY, State.PROGRESSING, State.SUSPENDED, State.DELETING})
"""States that do not require a user's attention."""


@dataclass(frozen=True)
class ServiceRow:
    """A service and its health. `kind`: of its object."""

    name: str
    namespace: str
    health: Health
    kind: str = RAY_SERVICE.name


def one_service(cluster: Cluster, name: str, namespace: str) -> ServiceRow:
    """The health of one service; state NotFound if there is none."""
    with explained(cluster, namespace, RAY_SERVICE.rights_for("status")):
        kind, item = find_service(cluster, name, namespace)
    with explained(cluster, namespace, kind.rights_for("status")):
        health = kind.diagnose(collect(cluster, kind, name, namespace, item), name, namespace)
    return ServiceRow(name, namespace, health, kind.name)


def all_services(cluster: Cluster, namespace: str | None) -> list[ServiceRow]:
    """The health of every service of a namespace, or of all (None), based on their objects.

    Serve is not asked: the state of applications in a service's status may be some seconds old.
    """
    return [
        ServiceRow(name, service_namespace, kind.diagnose(snapshot, name, service_namespace), kind.name)
        for kind, name, service_namespace, snapshot in collect_all(cluster, tuple(WORKLOADS.values()), namespace)
    ]


def follow_services(
    cluster: Cluster, namespace: str | None, timeout: float | None = None
) -> Iterator[list[ServiceRow] | Noted]:
    """`all_services` now and every few seconds, until the caller stops or `timeout` seconds have passed.

    If the API server does not answer, the error is noted once, and raised after wait.OUTAGE seconds.
    """
    return repeat(cluster, namespace or cluster.namespace, lambda *_: all_services(cluster, namespace), timeout, None)


def from_bundle(path: Path, name: str | None, namespace: str | None) -> ServiceRow:
    """The health of a service as a recorded bundle shows it. name, namespace None: those that the bundle names.

    Raises UsageError if it names no service, and does not have exactly one.
    """
    with open_bundle(path) as folder:
        snapshot = read_bundle(folder)
        of_bundle = namespace or namespace_of(folder) or "default"
        name = name or bundled_service(folder) or _only_service(path, snapshot)
    kind = kind_in(snapshot, name, of_bundle)
    return ServiceRow(name, of_bundle, kind.diagnose(snapshot, name, of_bundle), kind.name)


def _only_service(path: Path, snapshot: Snapshot) -> str:
    items = [item for kind in WORKLOADS.values() for item in snapshot.of_kind(kind.name) if kind.is_service(item)]
    names = sorted({str(item["metadata"]["name"]) for item in items})
    if len(names) != 1:
        raise UsageError(
            f"the bundle {path} has {len(names)} services: NAME says which",
            hint=[f"rayllm-ctl status {name} --from {path}" for name in names] or "rayllm-ctl status NAME --from PATH",
        )
    return names[0]

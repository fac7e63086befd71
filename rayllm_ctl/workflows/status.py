"""How services are: one, all of a namespace or of all namespaces, or one in a recorded bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.health import Health, State
from rayllm_ctl.workflows.bundle import read_bundle

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

KIND = RAY_SERVICE.name
"""The kind of object that is a service."""

WELL = frozenset({State.READY, State.PROGRESSING, State.SUSPENDED, State.DELETING})
"""States in which nothing calls for a user's attention."""


@dataclass(frozen=True)
class ServiceRow:
    """A line of the list of services."""

    name: str
    namespace: str
    health: Health


def one_service(cluster: Cluster, name: str, namespace: str) -> Health:
    """The health of one service; state NotFound where there is none."""
    from rayllm_ctl.cluster.permissions import explained
    from rayllm_ctl.cluster.snapshot import collect

    with explained(cluster, namespace, RAY_SERVICE.rights_for("status")):
        return RAY_SERVICE.diagnose(collect(cluster, RAY_SERVICE, name, namespace), name, namespace)


def all_services(cluster: Cluster, namespace: str | None) -> list[ServiceRow]:
    """The health of every service of a namespace, or of all (None), as far as their objects tell.

    Serve is not asked: what a service's status says of its applications may be some seconds old.
    """
    from rayllm_ctl.cluster.overview import collect_all

    return [
        ServiceRow(name, where, RAY_SERVICE.diagnose(snapshot, name, where))
        for name, where, snapshot in collect_all(cluster, RAY_SERVICE, namespace)
    ]


def from_bundle(folder: Path, name: str, namespace: str) -> Health:
    """The health of a service as a recorded bundle shows it."""
    return RAY_SERVICE.diagnose(read_bundle(folder), name, namespace)

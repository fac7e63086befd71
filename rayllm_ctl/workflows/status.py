"""How services are: one, all of a namespace, or one in a recorded bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.health import diagnose
from rayllm_ctl.model.health import Health, State
from rayllm_ctl.workflows.bundle import read_bundle
from rayllm_ctl.workflows.wait import look

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

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
    return look(cluster, name, namespace)


def all_services(cluster: Cluster, namespace: str) -> list[ServiceRow]:
    """The health of every RayService of a namespace, by name."""
    names = sorted(item["metadata"]["name"] for item in cluster.list("RayService", namespace))
    return [ServiceRow(name, namespace, look(cluster, name, namespace)) for name in names]


def from_bundle(folder: Path, name: str, namespace: str) -> Health:
    """The health of a service as a recorded bundle shows it."""
    return diagnose(read_bundle(folder), name, namespace)

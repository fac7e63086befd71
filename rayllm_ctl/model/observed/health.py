"""The health of a service: one Health from the objects of a Snapshot. States and cause codes are stable words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.external import ExternalAddress
from rayllm_ctl.model.observed.model_downloads import ModelDownload
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.model.text.json_form import OMIT_NONE

Object = Mapping[str, Any]
"""A Kubernetes object as a plain mapping."""


class State(StrEnum):
    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    STUCK = "Stuck"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Cause:
    """Why a service is not Ready: root cause first. `object` is `kind/name`; `evidence` quotes what was read.

    `terminal`: waiting cannot resolve it, so a waiting command can stop now. `since`: when its first evidence showed.
    """

    code: str
    object: str
    message: str
    evidence: tuple[str, ...] = ()
    hint: tuple[Hint, ...] = ()
    terminal: bool = False
    since: datetime | None = None


@dataclass(frozen=True)
class StatusNode:
    """A node of the status tree: `kind` is download, cluster, head, worker, application, replica or endpoint.

    `state` is one word (Pulling, Running, DEPLOYING; of a cluster its role), `detail` says where it is or what it waits
    for; neither changes with time alone. `since`: when this state began. `cluster`: the RayCluster it belongs to.
    """

    kind: str
    name: str
    state: str
    detail: str = ""
    children: tuple[StatusNode, ...] = ()
    since: datetime | None = None
    cluster: str = ""


@dataclass(frozen=True)
class QueueState:
    """Requests that wait for a replica, and that are answered. max_pending: how many may wait; None: any number."""

    pending: int
    running: int
    max_pending: int | None = None


def queue_of(figures: Mapping[str, Any]) -> QueueState | None:
    """A queue from its figures, as GET /queue of a gateway names them; None if they lack one."""
    known = {name: value for name, value in figures.items() if type(value) is int and value >= 0}
    if "pending" not in known or "running" not in known:
        return None
    return QueueState(known["pending"], known["running"], known.get("maxPending"))


def format_queue(queue: QueueState) -> str:
    """For people: "3 of at most 100 requests wait, 12 run"."""
    most = "" if queue.max_pending is None else f" of at most {queue.max_pending:,}"
    return f"{queue.pending:,}{most} requests wait, {queue.running:,} run"


def format_count(running: int, wanted: int) -> str:
    """Replicas for people: "1 of 2", or "2 (scaling down to 1)"."""
    return f"{running} of {wanted}" if running <= wanted else f"{running} (scaling down to {wanted})"


@dataclass(frozen=True)
class Health:
    """The health of a service. `message` summarizes it; `since` is when the first cause, or the state, began; None
    where that is unknown.

    replicas_*: replicas of the model's deployments (not of the ingress); endpoints: addresses behind the service.
    replicas_verified: Serve's own state was read; if not, the counts are those of worker pods.
    serve_unread: RayClusters whose Serve state could not be read, so that their replicas are missing from the tree.
    queue: requests that wait and run, of a service with a gateway; None if that is unknown.
    external: addresses outside the cluster; they do not affect the state, which is that of the model.
    downloads: models that Jobs download into shared storage, complete ones included; None if the service has none.
    notes: what could not be read, and why. observed_at: the time of the Snapshot, from which ages count.
    """

    state: State
    message: str
    causes: tuple[Cause, ...] = ()
    tree: tuple[StatusNode, ...] = ()
    notes: tuple[str, ...] = ()
    replicas_running: int = 0
    replicas_wanted: int = 0
    replicas_max: int = 0
    replicas_verified: bool = True
    serve_unread: tuple[str, ...] = ()
    endpoints: int = 0
    external: tuple[ExternalAddress, ...] = ()
    since: datetime | None = None
    observed_at: datetime | None = None
    queue: QueueState | None = field(default=None, metadata=OMIT_NONE)
    downloads: tuple[ModelDownload, ...] | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class Snapshot:
    """All that a reader may look at: objects of every kind, Serve's answer per RayCluster, logs, and the time of it.

    `serve[cluster]` is the body of GET /api/serve/applications/, or {"error": text}.
    `queue`: pending, running and maxPending, as GET /queue of a gateway; empty if nobody was asked.
    `logs` maps "<pod>/<file>" to text. `now` is timezone-aware. `notes`: what could not be read, and why;
    `unread`: kinds of which objects may exist that are missing here.
    """

    objects: tuple[Object, ...]
    now: datetime
    serve: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: frozenset[str] = frozenset()
    queue: Mapping[str, Any] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> list[Object]:
        """The objects of these kinds, in their order here."""
        return [item for item in self.objects if item.get("kind") in kinds]

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """The object of a kind and name. namespace: where it is; empty: the first in any."""
        for item in self.of_kind(kind):
            metadata = item.get("metadata") or {}
            if metadata.get("name") == name and namespace in ("", metadata.get("namespace")):
                return item
        return None

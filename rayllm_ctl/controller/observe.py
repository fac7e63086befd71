"""How a service is: in full, with requests, while it is not well, and when the watches tell of a change.

A service that was well in a full look stays so while what is watched of it stays the same: Serve may say HEALTHY of
replicas that are gone, and KubeRay Ready, but not without a change of a pod.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.snapshot.model_jobs import collect_model_jobs
from rayllm_ctl.cluster.snapshot.serve_states import ServeStates
from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.controller.caches import TELLING
from rayllm_ctl.controller.types import ChildKey, Key
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.downloading import download_health
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube.kuberay import RAY_CLUSTER
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Health, Object, Snapshot, State
from rayllm_ctl.model.workload import WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

FULL_SECONDS = (4.0, 60.0)
"""Between two full looks at the same service, at first and at most: each costs about 15 requests, so a service that
stays as it is is looked at less and less often."""

SETTLED_SECONDS = 30.0
"""After a change of its spec for which a service is looked at in full: KubeRay copies Serve's state every few seconds,
and until then its status is that of before the change."""

CONFIRM_SECONDS = (60.0, 600.0)
"""After its start in which a process looks at a service in full that was well before, one after another."""

DOWNLOAD_SECONDS = 20.0
"""Between two looks at a download: its progress is in the log of its pod, which is not watched."""

_TELLING_DOWNLOADS = frozenset({"Job", "Pod"})

_PASSING = frozenset(
    {"managedFields", "resourceVersion", "annotations", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"}
)
"""Fields that change while a service stays as it is."""


@dataclass(frozen=True)
class SeenHealth:
    """How a service is. again: seconds until the next look; None: the watches tell when there is something to see."""

    health: Health
    again: float | None


@dataclass(frozen=True)
class SeenDownload:
    """How a download is. again: seconds until the next look."""

    health: Health
    again: float


class Observer:
    """Remembers the last full look at each service. Thread-safe, as one key is reconciled by one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._full: dict[Key, _FullLook] = {}
        self._downloads: dict[Key, _DownloadLook] = {}

    def observe(
        self, key: Key, workload: Object, parts: Mapping[ChildKey, Object], *, was_ready: bool = False
    ) -> SeenHealth:
        """How the service is. was_ready: another process said so of this generation. Raises UserError if the API server
        does not answer.
        """
        kind = WORKLOADS[str(workload["kind"])]
        told = tuple(item for item in parts.values() if item["kind"] in TELLING)
        shown, generation = _digest(told), str(workload["metadata"].get("generation"))
        now = datetime.now(UTC)
        settled = (now - _written(workload)).total_seconds() > SETTLED_SECONDS
        quick = kind.diagnose(Snapshot(told, now), key.name, key.namespace) if settled else None
        if quick is not None and quick.state is State.SUSPENDED:
            self.forget(key)
            return SeenHealth(quick, None)
        well = quick is not None and quick.state is State.READY
        known = self._full.get(key)
        if known is None and well and was_ready:
            health = kind.diagnose(Snapshot(told, now, self._asked(kind, told)), key.name, key.namespace)
            if health.state is State.READY:
                known = _FullLook(generation, shown, time.monotonic(), _spread(key), _slim(health), by_serve=True)
                self._full[key] = known
        if known is None or known.by_serve or not (well and known.confirms(shown)):
            known = self._looked(key, kind, known, generation, shown, well=well)
        if well and known.confirms(shown) and not known.by_serve:
            return SeenHealth(known.health, None)
        return SeenHealth(known.health, max(known.due(shown, well=well) - time.monotonic(), 0.1))

    def _looked(
        self, key: Key, kind: WorkloadKind, known: _FullLook | None, generation: str, shown: str, *, well: bool
    ) -> _FullLook:  # fmt: skip
        """The last full look, or a new one if it is due."""
        now = time.monotonic()
        if known is not None and known.generation == generation and now < known.due(shown, well=well):
            return known
        health = kind.diagnose(collect(self._cluster, kind, key.name, key.namespace), key.name, key.namespace)
        found = _FullLook(generation, shown, now, _pause(known, generation, health), _slim(health))
        self._full[key] = found
        return found

    def _asked(self, kind: WorkloadKind, told: Sequence[Object]) -> Mapping[str, Mapping[str, Any]]:
        """What Serve says of a service."""
        if kind.is_cluster:
            return {}
        clusters = [item for item in told if item["kind"] == RAY_CLUSTER]
        with Tasks() as tasks:
            return ServeStates(self._cluster).ask(tasks, clusters, [item for item in told if item["kind"] == "Pod"])

    def observe_download(self, key: Key, jobs: Sequence[str], parts: Mapping[ChildKey, Object]) -> SeenDownload | None:
        """How the download of models by these Jobs is. None: it has just been completed, or one of the Jobs is gone.

        Raises UserError if the API server does not answer.
        """
        told = [item for (kind, _), item in parts.items() if kind in _TELLING_DOWNLOADS]
        shown, now = _digest(told), time.monotonic()
        known = self._downloads.get(key)
        if known is None or known.shown != shown or now >= known.taken + DOWNLOAD_SECONDS:
            try:
                snapshot = collect_model_jobs(self._cluster, key.namespace, jobs)
            except NotFoundError:
                return None
            health = download_health(ServiceContext(snapshot, key.name, key.namespace))
            if health is None:
                return None
            known = self._downloads[key] = _DownloadLook(shown, now, _slim(health))
        return SeenDownload(known.health, max(known.taken + DOWNLOAD_SECONDS - now, 0.1))

    def forget(self, key: Key) -> None:
        """Drop what is known of a service that is gone."""
        self._full.pop(key, None)
        self._downloads.pop(key, None)


@dataclass(frozen=True)
class _FullLook:
    """generation: of the workload. shown: the digest of what the watches had told. taken: time.monotonic. pause:
    seconds until the next one. by_serve: only Serve was asked.
    """

    generation: str
    shown: str
    taken: float
    pause: float
    health: Health
    by_serve: bool = False

    def confirms(self, shown: str) -> bool:
        """Whether the service was well, and nothing has changed since."""
        return self.health.state is State.READY and self.shown == shown

    def due(self, shown: str, *, well: bool) -> float:
        """When the next look is due, in the time of time.monotonic: soon if a change may be for the worse, or the end
        of trouble. well: as far as the watches tell.
        """
        changed = self.shown != shown and (well or self.health.state is State.READY)
        return self.taken + (FULL_SECONDS[0] if changed else self.pause)


@dataclass(frozen=True)
class _DownloadLook:
    """shown: the digest of what the watches had told. taken: time.monotonic."""

    shown: str
    taken: float
    health: Health


def _spread(key: Key) -> float:
    first, last = CONFIRM_SECONDS
    return first + zlib.crc32(str(key).encode()) / 2**32 * (last - first)


def _slim(health: Health) -> Health:
    """What is kept of a look at each of many services."""
    return replace(health, tree=())


def _digest(told: Sequence[Object]) -> str:
    """What the watches told, without what changes all the time."""
    shown = sorted(json.dumps(_lasting(item), sort_keys=True) for item in told)
    return hashlib.blake2b("\n".join(shown).encode(), digest_size=16).hexdigest()


def _lasting(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lasting(item) for key, item in value.items() if key not in _PASSING}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def _pause(before: _FullLook | None, generation: str, health: Health) -> float:
    first, most = FULL_SECONDS
    if before is None or before.generation != generation or _shown(before.health) != _shown(health):
        return first
    return min(before.pause * 1.5, most)


def _shown(health: Health) -> tuple[object, ...]:
    """What tells one look from the next."""
    return health.state, health.message, health.replicas_running, [one.code for one in health.causes]


def _written(workload: Object) -> datetime:
    """When the spec of an object was written last; the beginning of time if that is unknown."""
    records = [one for one in fields.items(workload, "metadata", "managedFields") if not one.get("subresource")]
    times = [moment for one in records if (moment := fields.when(one, "time")) is not None]
    return max(times, default=datetime.min.replace(tzinfo=UTC))

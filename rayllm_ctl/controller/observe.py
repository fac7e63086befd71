"""How a service is, from what the watches told; in full, with requests, only while it is not well."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.controller.children import ChildKey
from rayllm_ctl.controller.types import Key
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Health, Object, Snapshot, State

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

FULL_SECONDS = (4.0, 60.0)
"""Between two full looks at the same service, at first and at most: each costs about 15 requests, so a service that
stays as it is is looked at less and less often."""

SETTLED_SECONDS = 30.0
"""After a change of its spec for which a service is looked at in full: KubeRay copies Serve's state every few seconds,
and until then its status is that of before the change."""

_TOLD = frozenset({"RayService", "RayCluster", "Pod", "EndpointSlice"})
"""Kinds of which the caches have whole objects."""

_WELL = frozenset({State.READY, State.SUSPENDED, State.DELETING})


@dataclass(frozen=True)
class SeenHealth:
    """How a service is. again: seconds until the next look; None: the watches tell when there is something to see."""

    health: Health
    again: float | None


class Observer:
    """Remembers the last full look at each service. Thread-safe, as one key is reconciled by one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._full: dict[Key, _FullLook] = {}

    def observe(self, key: Key, workload: Object, parts: Mapping[ChildKey, Object]) -> SeenHealth:
        """How the service is. Raises UserError if the API server does not answer."""
        kind = WORKLOADS[str(workload["kind"])]
        now = datetime.now(UTC)
        if (now - _written(workload)).total_seconds() > SETTLED_SECONDS:
            told = tuple(item for item in parts.values() if item["kind"] in _TOLD)
            quick = kind.diagnose(Snapshot(told, now), key.name, key.namespace)
            if quick.state in _WELL:
                self._full.pop(key, None)
                return SeenHealth(quick, None)
        known, generation = self._full.get(key), str(workload["metadata"].get("generation"))
        now_seconds = time.monotonic()
        if known is None or known.generation != generation or now_seconds - known.taken >= known.pause:
            snapshot = collect(self._cluster, kind, key.name, key.namespace)
            health = kind.diagnose(snapshot, key.name, key.namespace)
            self._full[key] = known = _FullLook(generation, now_seconds, _pause(known, generation, health), health)
        return SeenHealth(known.health, max(known.taken + known.pause - now_seconds, 0.1))

    def forget(self, key: Key) -> None:
        """Drop what is known of a service that is gone."""
        self._full.pop(key, None)


@dataclass(frozen=True)
class _FullLook:
    """generation: of the workload. taken: time.monotonic. pause: seconds until the next one."""

    generation: str
    taken: float
    pause: float
    health: Health


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

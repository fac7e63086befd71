"""How a service is, from what the watches told; in full, with requests, only while it is not well."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.controller.children import ChildKey
from rayllm_ctl.controller.types import Key
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.observed.health import Health, Object, Snapshot, State

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

FULL_SECONDS = 10.0
"""Between two full looks at the same service: each costs about 15 requests."""

_TOLD = frozenset({"RayService", "RayCluster", "Pod", "EndpointSlice"})
"""Kinds of which the caches have whole objects."""

_WELL = frozenset({State.READY, State.SUSPENDED, State.DELETING})


class Observer:
    """Remembers the last full look at each service. Thread-safe, as one key is reconciled by one thread at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._full: dict[Key, tuple[float, Health]] = {}

    def health(self, key: Key, workload: Object, parts: Mapping[ChildKey, Object]) -> Health:
        """How the service is. Raises UserError where the API server does not answer."""
        kind = WORKLOADS[str(workload["kind"])]
        told = tuple(item for item in parts.values() if item["kind"] in _TOLD)
        quick = kind.diagnose(Snapshot(told, datetime.now(UTC)), key.name, key.namespace)
        if quick.state in _WELL:
            self._full.pop(key, None)
            return quick
        taken, known = self._full.get(key, (0.0, quick))
        if known is not quick and time.monotonic() - taken < FULL_SECONDS:
            return known
        snapshot = collect(self._cluster, kind, key.name, key.namespace)
        health = kind.diagnose(snapshot, key.name, key.namespace)
        self._full[key] = time.monotonic(), health
        return health

    def forget(self, key: Key) -> None:
        """Drop what is known of a service that is gone."""
        self._full.pop(key, None)

"""What the watches tell, by the object that it belongs to: a reconciliation of a service that is well asks for nothing.

Of the parts of services only the metadata is kept, except for those that tell how a service is.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.api.follower import Change, Subscription
from rayllm_ctl.cluster.api.watch import Watch
from rayllm_ctl.controller.committed import REVISION_KIND
from rayllm_ctl.controller.types import ChildKey, Key
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.api_kinds import APPLIED
from rayllm_ctl.model.kube.labels import BATCH, INSTANCE, MANAGED_BY, MANAGER, SERVICE
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.batch import BATCH_KIND
from rayllm_ctl.model.spec.service import KIND

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_OURS = f"{MANAGED_BY}={MANAGER}"
_MADE = f"{kuberay.ORIGIN_KIND} in (RayService,RayCluster)"

_WHOLE = (
    Subscription(KIND, kept=False),
    Subscription(BATCH_KIND, kept=False),
    Subscription("RayService", _OURS, writers=True, kept=False),
    Subscription("RayCluster", _OURS, writers=True, kept=False),
    Subscription("RayJob", _OURS, writers=True, kept=False),
    Subscription("Job", _OURS, writers=True, kept=False),
    Subscription("EndpointSlice", _MADE, kept=False),
    Subscription("Pod", SERVICE, kept=False),
)
"""Kinds that tell how a service is, or whether its model is there. KubeRay copies the labels of a RayService to its
RayClusters."""

_OPTIONAL = frozenset({"HTTPRoute", "ServiceMonitor", "PodMonitor", "PrometheusRule"})
"""Kinds that not every cluster serves."""

PARTS = (REVISION_KIND, *(kind for kind in APPLIED if kind not in {one.kind for one in _WHOLE}))
"""Kinds of which the metadata tells whether they are as they were applied."""

SUBSCRIPTIONS = (
    *_WHOLE,
    *(Subscription(kind, _OURS, metadata_only=True, writers=True, kept=False) for kind in PARTS),
)

_WAIT_SECONDS = 1.0
"""After which a thread that waits for changes looks whether it is to end."""


STALE_SECONDS = 60.0
"""After which what a watch told is not known any more. An API server that is restarted is back before that."""

_FASTEST = 1
"""The level of zlib: higher ones save a few percent more."""

TELLING = frozenset({"RayService", "RayCluster", "Pod", "EndpointSlice"})
"""Kinds that tell how a service is, and of which the whole objects are here."""


@dataclass(frozen=True)
class _Gap:
    """An interruption of a watch. begun: in seconds of time.monotonic; when: the same for people. told: the whole of it
    for people, once it has lasted too long.
    """

    begun: float
    when: str
    told: str = ""

    @property
    def stale(self) -> bool:
        return bool(self.told)


class ObjectCaches:
    """Objects by the key that they belong to. Thread-safe. changed: is told of every key that may be out of date.

    namespaces: those that are watched; empty: all. Objects are kept as compressed JSON, and unpacked for each look:
    as dicts they would take ten times the memory.
    """

    def __init__(self, cluster: Cluster, namespaces: Sequence[str], changed: Callable[[Key], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._lock = threading.Lock()
        self._objects: dict[Key, dict[ChildKey, bytes]] = {}
        self._places: dict[str, tuple[Key, ChildKey]] = {}
        places: Sequence[str | None] = namespaces or (None,)
        self._watches = [Watch(cluster, place) for place in places]
        self._synced = False
        self._gaps: dict[str | None, _Gap] = {}

    def start(self) -> None:
        """List and watch. Raises UserError if a kind cannot be read at all."""
        parts = self._served(PARTS)
        subscriptions = [one for one in SUBSCRIPTIONS if one in _WHOLE or one.kind in parts]
        for watch in self._watches:
            watch.follow(subscriptions)

    def pump(self, stop: threading.Event) -> None:
        """Take up changes until `stop`. Raises the UserError that ended a watch."""
        while not stop.is_set():
            for watch in self._watches:
                if watch.wait(_WAIT_SECONDS / len(self._watches)):
                    self.take(watch.drain())
            if not self._synced and all(watch.synced for watch in self._watches):
                for watch in self._watches:
                    self.take(watch.drain())
                self._synced = True
            self.look_for_gaps(time.monotonic())

    def look_for_gaps(self, now: float) -> None:
        """Look which watches are interrupted, and tell of the keys whose state is unknown since, or known again.

        While the API server does not answer at all, nothing can be written, and the time does not count: it begins
        again once any watch is back. now: seconds of time.monotonic.
        """
        connected = any(watch.connected for watch in self._watches)
        for watch in self._watches:
            known = self._gaps.get(watch.namespace)
            found = {kind: why for kind, why in watch.interrupted.items() if kind in TELLING}
            if not found:
                self._gaps.pop(watch.namespace, None)
                if known is not None and known.stale:
                    self._tell_all(watch.namespace)
            elif known is not None and known.stale:
                continue
            elif not connected or not self._synced:
                self._gaps.pop(watch.namespace, None)
            elif known is None:
                self._gaps[watch.namespace] = _Gap(now, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            elif now - known.begun >= STALE_SECONDS:
                kinds, why = ", ".join(sorted(found)), next(iter(found.values()))
                told = f"{kinds} could not be watched since {known.when}: {why}"
                self._gaps[watch.namespace] = replace(known, told=told)
                self._tell_all(watch.namespace)

    def gap(self, key: Key) -> str:
        """Why it is not known how the service of a key is; empty if the watches tell it."""
        found = self._gaps.get(key.namespace) or self._gaps.get(None)
        return "" if found is None else found.told

    def _tell_all(self, namespace: str | None) -> None:
        for key in self.keys():
            if namespace in (None, key.namespace):
                self._changed(key)

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches:
            watch.close()

    @property
    def synced(self) -> bool:
        """Whether everything was listed: before that, what is missing here may be there."""
        return self._synced

    @property
    def trouble(self) -> str | None:
        """Why changes may be late; None while they are not."""
        return next((watch.trouble for watch in self._watches if watch.trouble), None)

    def take(self, changes: Iterable[Change]) -> None:
        """Take up changes, and tell of the keys that they concern."""
        keys: dict[Key, None] = {}
        with self._lock:
            for change in changes:
                keys |= dict.fromkeys(self._take(change))
        for key in keys:
            self._changed(key)

    def keys(self) -> list[Key]:
        """The services and batch jobs that there are."""
        with self._lock:
            return [key for key, parts in self._objects.items() if (key.kind, key.name) in parts]

    def get(self, key: Key) -> Object | None:
        """The object of a key."""
        with self._lock:
            text = self._objects.get(key, {}).get((key.kind, key.name))
        return None if text is None else unpack_object(text)

    def parts(self, key: Key) -> dict[ChildKey, Object]:
        """What belongs to a key, without its own object."""
        with self._lock:
            found = dict(self._objects.get(key, {}))
        found.pop((key.kind, key.name), None)
        return {child: unpack_object(text) for child, text in found.items()}

    def _take(self, change: Change) -> list[Key]:
        item = change.object
        uid = str(item["metadata"]["uid"])
        known = self._places.pop(uid, None)
        place = _place(item)
        if known is not None and (change.type == "DELETED" or known != place):
            parts = self._objects.get(known[0], {})
            text = parts.get(known[1])
            if text is not None and unpack_object(text)["metadata"]["uid"] == uid:  # and not another one of its name
                del parts[known[1]]
            if not parts:
                self._objects.pop(known[0], None)
        if place is not None and change.type != "DELETED":
            self._objects.setdefault(place[0], {})[place[1]] = pack_object(item)
            self._places[uid] = place
        return [found[0] for found in (known, place) if found is not None]

    def _served(self, kinds: Iterable[str]) -> list[str]:
        """Those of `kinds` that the cluster serves."""
        return [kind for kind in kinds if kind not in _OPTIONAL or self._serves(kind)]

    def _serves(self, kind: str) -> bool:
        try:
            self._cluster.list(kind, self._watches[0].namespace, label_selector=_OURS)
        except NotFoundError:
            return False
        return True


def pack_object(item: Object) -> bytes:
    """An object as it is kept."""
    text = json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode(), _FASTEST)


def unpack_object(kept: bytes) -> dict[str, Any]:
    """The object of what `pack_object` made."""
    found: dict[str, Any] = json.loads(zlib.decompress(kept))
    return found


def _place(item: Object) -> tuple[Key, ChildKey] | None:
    """The key that an object belongs to, and its own kind and name; None if it belongs to none."""
    metadata = item["metadata"]
    kind, name, namespace = str(item["kind"]), str(metadata["name"]), str(metadata.get("namespace", ""))
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    if kind in (KIND, BATCH_KIND):
        return Key(kind, namespace, name), (kind, name)
    if kind == "EndpointSlice":
        owner = kuberay.served_by(str(labels.get(kuberay.SERVICE_NAME, "")))
    elif kind in ("Pod", REVISION_KIND):
        owner = str(labels.get(SERVICE, ""))
    elif BATCH in labels:
        return Key(BATCH_KIND, namespace, str(labels[BATCH])), (kind, name)
    else:
        owner = str(labels.get(INSTANCE, ""))
    return (Key(KIND, namespace, owner), (kind, name)) if owner else None

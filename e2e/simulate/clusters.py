"""The state of every simulated Ray cluster, found by the address that was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.simulate.jobs import Jobs
from e2e.simulate.pods import PodTable, RayPod
from e2e.simulate.serve import Serve
from e2e.simulate.settings import Settings, from_annotation


@dataclass
class Cluster:
    """One Ray cluster, which lives as long as its head pod."""

    head: RayPod
    settings: Settings
    serve: Serve
    jobs: Jobs
    pods: Sequence[RayPod] = ()


@dataclass
class Clusters:
    """All clusters. `clock` gives seconds since the epoch."""

    table: PodTable
    clock: Callable[[], float] = time.time
    _clusters: dict[str, Cluster] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def at(self, address: str) -> Iterator[tuple[RayPod, Cluster] | None]:
        """The pod with an address and its cluster, brought up to now and locked; None where no Ray pod or no head is.

        ValueError if the head's annotation does not hold settings.
        """
        with self._lock:
            pod = self.table.at(address)
            members = self.table.members(pod.namespace, pod.cluster) if pod else []
            head = next((one for one in members if one.head), None)
            if pod is None or head is None:
                yield None
                return
            if head.uid not in self._clusters:
                self._forget_the_dead()
                identity = f"{head.namespace}/{head.cluster}/{head.uid}"
                self._clusters[head.uid] = Cluster(
                    head, from_annotation(head.settings), Serve(identity), Jobs(identity)
                )
            cluster = self._clusters[head.uid]
            cluster.pods = members
            now = self.clock()
            cluster.serve.advance(members, cluster.settings, now)
            cluster.jobs.advance(cluster.settings, now)
            yield pod, cluster

    def _forget_the_dead(self) -> None:
        for uid, cluster in list(self._clusters.items()):
            members = self.table.members(cluster.head.namespace, cluster.head.cluster)
            if all(pod.uid != uid for pod in members):
                del self._clusters[uid]

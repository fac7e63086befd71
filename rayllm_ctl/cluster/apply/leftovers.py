"""Wait until deleted objects are gone, and report the remaining ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.inventory import Entry
from rayllm_ctl.errors import WaitTimeoutError
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import format_duration

POLL_SECONDS = 1.0
"""Seconds between two polls. There is no watch, as pods have to be found by the name of a deleted RayCluster."""


class Leftovers:
    """The remaining objects of a service or batch job `name` that is being deleted; here only the deleted objects.

    look: a command that lists them.
    """

    def __init__(self, cluster: Cluster, name: str, namespace: str, look: str) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = namespace
        self._look = look

    def parts(self) -> list[dict[str, Any]]:
        """RayClusters and pods created by controllers, which have to be gone as well."""
        return []

    def notes(self, parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:  # noqa: ARG002  for subclasses
        """New notes on `parts`; notes are not repeated."""
        yield from ()

    def final_notes(self) -> Iterator[str]:
        """Notes when all objects are gone."""
        yield from ()

    def wait(self, entries: Sequence[Entry], deadline: float, timeout: float) -> Iterator[Applied | Noted]:
        """Wait until the deleted objects and all parts are gone. WaitTimeoutError after `deadline` lists the rest.

        timeout: seconds from the start to `deadline`, for the message.
        """
        pending = list(entries)
        reported: set[str] = set()
        pods_before: int | None = None
        while True:
            left = {entry: stored for entry in pending if (stored := self._find(entry)) is not None}
            for entry in pending:
                if entry not in left:
                    yield Applied(entry.kind, entry.name, entry.namespace, "deleted")
            pending = list(left)
            parts = self.parts()
            for note in self.notes(parts):
                if note not in reported:
                    reported.add(note)
                    yield Noted(note)
            if not left and not parts:
                yield from map(Noted, self.final_notes())
                return
            pods = sum(part["kind"] == "Pod" and not cleans_up(part) for part in parts)
            if pods not in (0, pods_before):
                yield Noted(f"waiting for {pods} pod{'s' if pods > 1 else ''} of {self.name} to terminate")
            pods_before = pods
            if time.monotonic() >= deadline:
                raise self._timed_out([*left.values(), *parts], timeout)
            time.sleep(max(min(POLL_SECONDS, deadline - time.monotonic()), 0.05))

    def _find(self, entry: Entry) -> dict[str, Any] | None:
        try:
            stored = self.cluster.get(entry.kind, entry.name, entry.namespace)
        except NotFoundError:
            return None
        return stored if stored["metadata"]["uid"] == entry.uid else None

    def _timed_out(self, still: Sequence[Mapping[str, Any]], timeout: float) -> WaitTimeoutError:
        lines = [f"  {_why_kept(item)}" for item in still]
        hints = [self._look]
        if any("finalizers" in item["metadata"] for item in still):
            hints.append("finalizers are removed by their controller: is the KubeRay operator running?")
        hints.append("the deletion continues; run the command again to wait for it")
        return WaitTimeoutError(
            "\n".join([f"{self.name} still exists after {format_duration(timeout)}; remaining objects:", *lines]),
            hint=tuple(hints),
        )


def cleans_up(pod: Mapping[str, Any]) -> bool:
    """Whether a pod belongs to the Job that clears the Redis of a RayCluster."""
    return bool((pod["metadata"].get("labels") or {}).get(kuberay.NODE_TYPE) == kuberay.REDIS_CLEANUP)


def _why_kept(item: Mapping[str, Any]) -> str:
    """A line for a remaining object, and why it was kept."""
    metadata = item["metadata"]
    reasons = []
    if metadata.get("finalizers"):
        reasons.append(f"finalizers {', '.join(metadata['finalizers'])}")
    if item["kind"] == "Pod":
        node = (item.get("spec") or {}).get("nodeName")
        reasons.append(f"on node {node}" if node else "not scheduled")
    if "deletionTimestamp" in metadata:
        reasons.append(f"being deleted since {metadata['deletionTimestamp']}")
    else:
        reasons.append("not being deleted yet")
    return f"{item['kind']} {metadata['name']}: {'; '.join(reasons)}"

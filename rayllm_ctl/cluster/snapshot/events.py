"""Events of one service, fetched per object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects

MOST_SUBJECTS = 20
"""Maximum number of objects whose events are fetched per object; beyond it one list of the namespace is cheaper."""

_ENDED = re.compile(r"Deleted (?:worker|head) Pod [^/\s]+/([^;\s]+); Pod status: ")
"""KubeRay's event for a pod that it deleted because it had ended."""


class OwnEvents:
    """Remembers pods, so that their events are found after their deletion.

    read: returns the events of the object with a name.
    """

    def __init__(self, read: Callable[[str], Objects]) -> None:
        self._read = read
        self._seen_pods: dict[str, bool] = {}
        self._ended_pods: dict[str, Objects] = {}

    def ask(self, tasks: Tasks, others: Iterable[str], pods: Objects) -> list[Objects] | None:
        """Events of `others`, and of pods that are not ready; None if these are too many."""
        well = {pod["metadata"]["name"]: is_well(pod) for pod in pods}
        gone = [name for name in self._seen_pods if name not in well]
        self._seen_pods = {**dict.fromkeys(gone, False), **well}
        subjects = {*others, *(name for name, ready in self._seen_pods.items() if not ready)}
        if len(subjects) > MOST_SUBJECTS:
            return None
        lists = tasks.map(self._read, sorted(subjects))
        # Events of pods that were gone before the first observation, above all whether they were deleted on purpose.
        ended = {
            match[1] for events in lists for event in events for match in _ENDED.finditer(str(event.get("message")))
        }
        unread = sorted(ended - subjects - self._ended_pods.keys())[:MOST_SUBJECTS]
        self._ended_pods |= zip(unread, tasks.map(self._read, unread), strict=True)
        return [*lists, *self._ended_pods.values()]


def is_well(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)

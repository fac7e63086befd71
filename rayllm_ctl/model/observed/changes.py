"""The effects of changed manifests on running pods: terms, and the result of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.model.text.json_form import OMIT_NONE

Effect = Literal[
    "in-place",
    "bounds",
    "not-rolled-out",
    "created",
    "restart",
    "new-cluster",
    "with-new-cluster",
    "recreate",
    "deleted",
    "rejected",
    "unknown",
]
"""The effect of a change:

in-place          applied to running pods; no pod and no replica restarts
bounds            limits of a worker group: `rayllm-ctl deploy` writes them to the live RayCluster, KubeRay does not
not-rolled-out    stored by the API server, but not applied to running pods
created           an object that did not exist
restart           Ray Serve replaces replicas on the same Ray cluster, or a controller replaces pods
new-cluster       KubeRay starts a second RayCluster, and deletes the first when the second serves
with-new-cluster  reaches that second RayCluster, which another change starts, and not the first
recreate          KubeRay deletes all pods of the RayCluster and creates them again
deleted           an object is deleted, and its pods with it
rejected          the API server rejects it: the object does not change
unknown           the controller of the object's kind is not known
"""

EFFECTS: tuple[Effect, ...] = get_args(Effect)

Action = Literal["created", "configured", "unchanged", "deleted"]
"""The result for an object."""


@dataclass(frozen=True)
class FieldChange:
    """One field that changes. `field`: its name as users know it; `where`: the parts of the object that have it.

    path: where it stands in the object (the first place, if there are several). old, new: None if it is absent.
    """

    path: str
    field: str
    where: tuple[str, ...]
    old: Any
    new: Any
    effect: Effect


@dataclass(frozen=True)
class Consequence:
    """The consequence of one effect for one object. outage: it is unavailable for a while (None: depends on the load).

    `hints`: what to type or do about it. `extra`: the additional resources that are needed, as quantities;
    `capacity`: whether the nodes have them now (None: unknown). `unless`: an unknown fact, with which it does not come.
    """

    effect: Effect
    message: str
    outage: bool = False
    hints: tuple[Hint, ...] = ()
    extra: Mapping[str, str] | None = field(default=None, metadata=OMIT_NONE)
    capacity: bool | None = field(default=None, metadata=OMIT_NONE)
    unless: str | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class Explanation:
    """The changes of one object, and what they come to."""

    changes: tuple[FieldChange, ...] = ()
    consequences: tuple[Consequence, ...] = ()


@dataclass(frozen=True)
class Unread:
    """State that could not be read: why, and a hint."""

    why: str
    hint: Hint


@dataclass(frozen=True)
class Running:
    """The state of the running service. All of it may be unknown: a comparison of files has no cluster.

    kuberay: version of the operator. clusters: names of the live RayClusters, the active one first. replicas: running
    replicas of each Serve deployment. unread: Serve was asked for them and they could not be read, so that any number
    may run. start_seconds: how long a replica takes to start, as planned. serves: whether the service answers now.
    """

    kuberay: str = ""
    clusters: tuple[str, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)
    unread: Unread | None = None
    start_seconds: float | None = None
    serves: bool = True


Explain = Callable[[Mapping[str, Any], Mapping[str, Any], Running], Explanation]
"""The rules of a kind for a changed object: (before, after, running). Both sides exist and differ."""


@dataclass(frozen=True)
class ObjectDiff:
    """One object: as it is and as it would be, cleaned of what the API server keeps by itself; Secrets are masked."""

    api_version: str
    kind: str
    name: str
    namespace: str
    action: Action
    explanation: Explanation
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Every effect of the change, once."""
        found = [change.effect for change in self.explanation.changes]
        found += [consequence.effect for consequence in self.explanation.consequences]
        return tuple(dict.fromkeys(found))

    @property
    def keeps_cluster_if(self) -> str | None:
        """The unknown fact with which a RayService keeps its RayCluster; empty: it keeps it, None: it does not."""
        starts = [one.unless for one in self.explanation.consequences if one.effect == "new-cluster"]
        return None if None in starts else next(iter(starts), "")

    @property
    def outage(self) -> bool:
        """Whether nothing answers for a while."""
        return any(consequence.outage for consequence in self.explanation.consequences)

    @property
    def waits(self) -> bool:
        """Whether a RayCluster that it starts asks for more than the nodes have now."""
        return any(consequence.capacity is False for consequence in self.explanation.consequences)


@dataclass(frozen=True)
class Diff:
    """The objects that change, in the order in which they are applied; `sides`: what the two versions are called.

    notes: what else is not as the manifests say.
    """

    objects: tuple[ObjectDiff, ...]
    sides: tuple[str, str] = ("LIVE", "MERGED")
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects)

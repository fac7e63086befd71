"""The differences between the kinds of objects that run a service. The kinds themselves: rayllm_ctl.kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.cluster_spec import cluster_path

if TYPE_CHECKING:
    from rayllm_ctl.model.observed.changes import Explain
    from rayllm_ctl.model.observed.external import ExternalAddress
    from rayllm_ctl.model.observed.health import Health, Object, Snapshot

Activity = Literal[
    "apply", "bounds", "follow", "record", "history", "restart", "suspend", "status", "list", "events", "follow-events",
    "logs", "endpoint", "chat", "port-forward", "dashboard", "top", "security", "delete",
    "version",
]  # fmt: skip
"""An activity of a command with a service; it may have several: deploy applies, sets bounds, records and follows."""


@dataclass(frozen=True)
class Right:
    """A verb on a kind, or on one of its subresources ("proxy" of Service).

    everywhere: in all namespaces. namespace: where, unless in that of the service.
    """

    verb: str
    kind: str
    subresource: str = ""
    everywhere: bool = False
    namespace: str = ""


@dataclass(frozen=True)
class Rights:
    """`needed`: an activity fails without them. `display`: without them something cannot be shown or explained."""

    needed: tuple[Right, ...] = ()
    display: tuple[Right, ...] = ()

    def __or__(self, other: Rights) -> Rights:
        needed = tuple(dict.fromkeys((*self.needed, *other.needed)))
        display = dict.fromkeys((*self.display, *other.display))
        return Rights(needed, tuple(right for right in display if right not in needed))


@dataclass(frozen=True)
class WorkloadKind:
    """A kind that KubeRay runs as RayClusters, or a RayCluster itself.

    rights: what each activity asks of the API server.
    is_service: whether an object of the kind is a service, and not a part of one or somebody else's.
    clusters_of: names of the RayClusters that an object's status names. made_for: the label selector of what KubeRay
    makes for the object of a name. serve_service: the Service in front of it. diagnose: its health reader.
    external: what a Snapshot tells of its addresses outside the cluster.
    explain: the effects of a change of an object of this kind.
    """

    name: str
    rights: Mapping[Activity, Rights]
    is_service: Callable[[Object], bool]
    clusters_of: Callable[[Object], tuple[str, ...]]
    made_for: Callable[[str], str]
    serve_service: Callable[[str], str]
    diagnose: Callable[[Snapshot, str, str], Health]
    external: Callable[[Snapshot, str, str], tuple[ExternalAddress, ...]]
    explain: Explain

    @property
    def is_cluster(self) -> bool:
        """Whether its objects are RayClusters, which KubeRay makes no further ones for."""
        return self.name == "RayCluster"

    @property
    def cluster_path(self) -> tuple[str, ...]:
        """The path to the spec of the RayCluster in its objects."""
        return cluster_path(self.name)

    def rights_for(self, *activities: Activity) -> Rights:
        """The rights of several activities together."""
        total = Rights()
        for activity in activities:
            total |= self.rights[activity]
        return total

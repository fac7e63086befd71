"""A live service as the security checks see it: its RayClusters, and a pod of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_path, cluster_spec
from rayllm_ctl.model.kube.labels import MANAGED_BY, MANAGER, MODEL
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object, Snapshot
from rayllm_ctl.model.text.hint import Hint

AUTOSCALER = "autoscaler"
"""Name of the container in which KubeRay runs Ray's autoscaler, beside the head."""


@dataclass(frozen=True)
class Member:
    """A pod of the service; or the template of its group, where no pod of the group runs.

    who: "head" or "group NAME". cluster: the spec of its RayCluster.
    """

    who: str
    is_head: bool
    is_pod: bool
    labels: Mapping[str, str]
    spec: Object
    cluster: Object

    def port(self, name: str, default: int) -> int:
        """The port of that name of the Ray container."""
        container = next(iter(fields.items(self.spec, "containers")), {})
        ports = (one for one in fields.items(container, "ports") if one.get("name") == name)
        return fields.integer(next(ports, {}), "containerPort", default=default)


@dataclass(frozen=True)
class CheckedService:
    """kind: of its object. kuberay: the version of the operator; None: unknown. key_required: whether its OpenAI API
    requires an API key; None: unknown."""

    kind: str
    workload: Object
    clusters: tuple[Object, ...]
    members: tuple[Member, ...]
    snapshot: Snapshot
    kuberay: str | None
    key_required: bool | None

    @property
    def name(self) -> str:
        return fields.name(self.workload)

    @property
    def namespace(self) -> str:
        return fields.namespace(self.workload)

    @property
    def heads(self) -> list[Member]:
        return [member for member in self.members if member.is_head]

    @property
    def is_ours(self) -> bool:
        """Whether rayllm-ctl rendered it from a spec file, which is the place for changes then."""
        return fields.label(self.workload, MANAGED_BY) == MANAGER and bool(fields.annotation(self.workload, MODEL))

    @property
    def cluster_field(self) -> str:
        """Where the spec of the RayCluster stands in its object."""
        return ".".join(cluster_path(self.kind))

    def of_kind(self, *kinds: str) -> list[Object]:
        return self.snapshot.of_kind(*kinds)

    def unread(self, kind: str) -> bool:
        """Whether there may be objects of a kind that could not be read."""
        return kind in self.snapshot.unread

    def change(self, field: str, cluster_field: str) -> Hint:
        """What to change, for a hint: a field of the spec file, or one of the RayCluster's spec, with its value."""
        if self.is_ours:
            return Hint(remark=f"set {field} in the spec file, then rayllm-ctl deploy -f FILE")
        return Hint(remark=f"set {self.cluster_field}.{cluster_field} in {self.kind} {self.name}")


def read_checked_service(
    snapshot: Snapshot, workload: Object, kuberay_version: str | None, key_required: bool | None
) -> CheckedService:
    """The service whose object is `workload`. snapshot: what there is of it."""
    clusters = tuple(
        item for item in snapshot.of_kind(kuberay.RAY_CLUSTER) if fields.deleted(item) is None
    )  # fmt: skip
    if not clusters:
        spec = cluster_spec(workload)
        clusters = ({"kind": kuberay.RAY_CLUSTER, "metadata": {"name": fields.name(workload)}, "spec": spec},)
    pods = snapshot.of_kind("Pod")
    members = tuple(member for one in clusters for member in _members(one, pods, several=len(clusters) > 1))
    return CheckedService(fields.kind(workload), workload, clusters, members, snapshot, kuberay_version, key_required)


def _members(cluster: Object, pods: list[Object], *, several: bool) -> Iterator[Member]:
    spec, name = fields.mapping(cluster, "spec"), fields.name(cluster)
    suffix = f" of {name}" if several else ""
    groups = [("head", "headgroup", fields.mapping(spec, "headGroupSpec"))]
    groups += [
        (f"group {fields.text(one, 'groupName')}", fields.text(one, "groupName"), one)
        for one in fields.items(spec, "workerGroupSpecs")
    ]
    for who, group, part in groups:
        is_head = who == "head"
        live = [
            pod for pod in pods
            if fields.label(pod, kuberay.CLUSTER) == name and _is_of(pod, group, is_head=is_head)
        ]  # fmt: skip
        for pod in live:
            labels = fields.mapping(pod, "metadata", "labels")
            yield Member(f"{who}{suffix}", is_head, True, labels, fields.mapping(pod, "spec"), spec)
        if not live:
            template = fields.mapping(part, "template")
            labels = {
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": kuberay.OPERATOR,
                "ray.io/is-ray-node": "yes",
                **fields.mapping(template, "metadata", "labels"),
                kuberay.CLUSTER: name,
                kuberay.NODE_TYPE: kuberay.HEAD if is_head else "worker",
                kuberay.GROUP: group,
            }
            yield Member(f"{who}{suffix}", is_head, False, labels, fields.mapping(template, "spec"), spec)


def _is_of(pod: Object, group: str, *, is_head: bool) -> bool:
    if fields.label(pod, kuberay.NODE_TYPE) == kuberay.HEAD:
        return is_head
    return not is_head and fields.label(pod, kuberay.GROUP) == group

"""Checks of the cluster before a rendered service is applied."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.preflight.manifests import check_incremental_upgrade, check_operator_namespace, require_kinds
from rayllm_ctl.cluster.preflight.preflight import check_rights
from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.kuberay import asks_for_token
from rayllm_ctl.model.kube.kuberay_versions import known_version
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.planner.deployment.ray_token import KnownCluster
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.model_storage.checks import require_storage
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref, reject_other_kind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_NODES = (Right("list", "Node"), Right("list", "Pod", everywhere=True))
"""Rights to read the nodes and the pods on them."""


def read_for_apply(
    cluster: Cluster, rendering: Rendering, namespace: str, rights: Rights, known: ServiceRef | None = None
) -> Generator[Checked, None, ServiceRef]:
    """The service that `rendering` is applied to, after checks of KubeRay, the namespace and the required rights.

    known: the service, if it has been read already; without an object it is read again.
    """
    if known is not None and known.item is not None:
        known.require_rights(rights.needed)
        return known
    kind, manifest = workload(rendering.manifests)
    name = manifest["metadata"]["name"]
    yield from reject_other_kind(cluster, kind, name, namespace)
    return read_service_ref(cluster, kind, name, namespace, rights.needed)


def check_prerequisites(service: ServiceRef, rendering: Rendering, rights: Rights) -> Iterator[Checked]:
    """Checks of the cluster, the optional rights, and the capacity for a new service."""
    yield from service.checks
    if service.item is not None:  # its own resources are not free, and would be reported as missing
        yield check_rights(service.permissions, rights)
        return
    nodes = all_nodes(service.cluster)
    if nodes is not None:
        for right in _NODES:
            service.permissions.learn(right, allowed=True)
    yield check_rights(service.permissions, rights)
    unread = Checked("capacity", None, "not permitted to list nodes")
    yield unread if nodes is None else capacity_check(workload(rendering.manifests)[1], *nodes)


def known_cluster(service: ServiceRef) -> KnownCluster:
    """The facts about the cluster of a service that the planner uses."""
    return KnownCluster(service.kuberay, None if service.item is None else asks_for_token(service.item))


def fit(service: ServiceRef, rendering: Rendering) -> Generator[Checked, None, Rendering]:
    """`rendering` for the cluster's version of KubeRay: with a token if KubeRay supports it."""
    rendering, untokened = rendering.for_cluster(known_cluster(service))
    if untokened:
        yield Checked("token authentication", None, untokened)
    if service.kuberay:
        yield from check_version(service.kuberay, rendering)
    yield from check_surroundings(service.cluster, rendering, workload(rendering.manifests)[1], service.namespace)
    manifests = yield from require_storage(
        service.cluster, rendering.manifests, service.namespace, model_bytes(rendering)
    )
    return replace(rendering, manifests=manifests)


def model_bytes(rendering: Rendering) -> float | None:
    """The bytes of the files of all models; None if those of one are unknown."""
    sizes = [plan.file_bytes for plan in rendering.plan.each.values()] if rendering.plan is not None else []
    known = [size for size in sizes if size is not None]
    return float(sum(known)) if known and len(known) == len(sizes) else None


def check_surroundings(
    cluster: Cluster, rendering: Rendering, manifest: Mapping[str, Any], namespace: str
) -> Iterator[Checked]:
    """Check the prerequisites of the objects next to the service, and of its upgrades."""
    require_kinds(cluster, rendering.manifests, namespace)
    yield from check_incremental_upgrade(cluster, manifest)
    network = rendering.plan.deployment.network if rendering.plan and rendering.plan.deployment else None
    if network is not None:
        yield from check_operator_namespace(cluster, network.operator_namespace)


def check_version(running: str, rendering: Rendering) -> Iterator[Checked]:
    """Check that the cluster's version of KubeRay supports all fields of the manifests."""
    version, note = known_version(running)
    rendering.check(version)
    if note:
        yield Checked("manifests", None, note)

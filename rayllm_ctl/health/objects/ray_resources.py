"""Ray's resources of a cluster, counted: what its workers offer, what replicas hold, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rayllm_ctl.health.objects.cluster_spec import GroupSpec
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.model.observed.serve_state import Deployment

Bundle = Mapping[str, float]
"""Resource name -> amount, of one process of a replica."""

TYPE = "accelerator_type:"
"""How a resource's name begins that stands for a type of accelerator."""

_LEAVING = ("STOPPING", "PENDING_MIGRATION")


def fits_group(group: GroupSpec, deployment: Deployment) -> bool:
    """Whether an empty worker of the group can hold one of the deployment's bundles at least."""
    return any(_fits(bundle, group.capacity) for bundle in _bundles(deployment))


def fits_somewhere(cluster: RayCluster, deployment: Deployment) -> bool:
    """Whether every bundle fits on an empty worker of some group, or the head. Accelerator types are not judged."""
    offers = [*(group.capacity for group in cluster.spec.groups), cluster.spec.head]
    return all(any(_fits(bundle, offer) for offer in offers) for bundle in _bundles(deployment))


def accelerator_types(deployment: Deployment) -> tuple[str, ...]:
    """The accelerator types that a replica asks for, as Ray names them: A100, L4."""
    names = {name for bundle in deployment.bundles for name in bundle if name.startswith(TYPE)}
    return tuple(sorted(name.removeprefix(TYPE) for name in names))


def is_product(product: str, type_: str) -> bool:
    """Whether a GPU of the node label `product` (NVIDIA-A100-SXM4-80GB) may be of Ray's type (A100, A100-80G)."""
    return type_.partition("-")[0].lower() in re.split(r"[-_ ]", product.lower())


def workers_of(cluster: RayCluster, group: str) -> int:
    return sum(pod.group == group for pod in cluster.workers)


def overflow(cluster: RayCluster) -> frozenset[str] | None:
    """Deployments ("app/name") with a replica that cannot be placed however long it waits, by what each replica needs.

    None if what a replica needs is not known for every deployment (of one with several processes it is not known where
    they run), and while replicas leave, which frees what they hold.
    """
    deployments = cluster.serve.deployments
    leaving = any(replica.state in _LEAVING for one in deployments for replica in one.replicas)
    if leaving or any(len(one.bundles) != 1 for one in deployments):
        return None
    capacity = {group.name: group.capacity for group in cluster.spec.groups}
    free = {pod.name: dict(cluster.spec.head if pod.head else capacity.get(pod.group, {})) for pod in cluster.live_pods}
    for one in deployments:
        for replica in one.replicas:
            _take(free.get(replica.pod, {}), one.bundles[0])
    found = set()
    for one in deployments:
        for replica in one.replicas:
            if replica.state != "STARTING" or replica.pod:
                continue
            place = next((offer for offer in free.values() if _fits(one.bundles[0], offer)), None)
            if place is None:
                found.add(f"{one.app}/{one.name}")
            else:
                _take(place, one.bundles[0])
    return frozenset(found)


def format_resources(resources: Bundle) -> str:
    """Resources as Ray writes them: {CPU: 4, GPU: 1}."""
    return "{" + ", ".join(f"{name}: {amount:g}" for name, amount in resources.items() if amount) + "}"


def _bundles(deployment: Deployment) -> tuple[Bundle, ...]:
    """What has to fit on one node each: all bundles together if they are to be packed."""
    if not deployment.packed:
        return deployment.bundles
    names = {name for bundle in deployment.bundles for name in bundle}
    return ({name: sum(bundle.get(name, 0.0) for bundle in deployment.bundles) for name in names},)


def _fits(bundle: Bundle, offer: Bundle) -> bool:
    return all(offer.get(name, 0.0) + 1e-9 >= amount for name, amount in bundle.items() if ":" not in name)


def _take(offer: dict[str, float], bundle: Bundle) -> None:
    for name, amount in bundle.items():
        offer[name] = offer.get(name, 0.0) - amount

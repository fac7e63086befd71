"""Checks of PersistentVolumeClaims: names, and whether all pods could mount one that is created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.spec.checks.pod_fields import is_object_name, quantity
from rayllm_ctl.model.spec.model_storage import AUTO_SIZE, NewClaim
from rayllm_ctl.model.spec.service import LLMService, Storage
from rayllm_ctl.model.spec.several_models import has_ingress
from rayllm_ctl.model.text.problems import Path, Problem, quoted

HOSTNAME = "kubernetes.io/hostname"
"""The label of nodes that a node selector pins all pods of one kind to one node with."""

_SMALLEST = 2**20
"""Of a claim, in bytes: a number without a unit is not meant."""

_MANY = "accessModes: [ReadWriteMany]"


def claim_problems(
    service: LLMService, at: Path, name: str, create_at: Path, create: NewClaim | None
) -> Iterator[Problem]:
    """Problems of a claim at `at`, and of its creation."""
    if not is_object_name(name):
        yield Problem(
            at,
            f"{quoted(name)} is not a valid name of a PersistentVolumeClaim: it must consist of lower-case letters, "
            "digits, '-' and '.'",
        )
    if create is not None:
        yield from _creation(service, create_at, create)


def shared_claim_problems(service: LLMService) -> Iterator[Problem]:
    """A claim that pods would have as two volumes: the kubelet mounts one of them and never gets the other
    (kubernetes/kubernetes#127004)."""
    storage, first = service.storage, dict[str, str]()
    for at, name in _claims_of_storage(storage):
        if name in first:
            yield _second_volume(at, name, first[name])
        first.setdefault(name, ".".join(map(str, at)))
    for index, volume in enumerate(storage.volumes):
        claim = volume.persistent_volume_claim
        if claim in first:
            at = ("spec", "storage", "volumes", index, "persistentVolumeClaim")
            yield _second_volume(at, claim, first[claim])


def _second_volume(at: Path, claim: str, first: str) -> Problem:
    return Problem(
        at,
        f"claim {claim} is also {first}, and pods that have a claim as two volumes do not start",
        "another claim",
    )


def _claims_of_storage(storage: Storage) -> Iterator[tuple[Path, str]]:
    """The claims that pods mount for the model and for caches, and where the spec names them."""
    model, caches = storage.model, storage.caches
    at: Path = ("spec", "storage", "model")
    if model is not None and model.hub is not None:
        yield (*at, "hub", "cache"), model.hub.cache
    elif model is not None and model.claim is not None:
        yield (*at, "claim", "name"), model.claim.name
    elif model is not None and model.mirror is not None and model.mirror.to.claim is not None:
        yield (*at, "mirror", "to", "claim", "name"), model.mirror.to.claim.name
    if caches is not None and caches.compile is not None:
        yield ("spec", "storage", "caches", "compile"), caches.compile


def _creation(service: LLMService, at: Path, create: NewClaim) -> Iterator[Problem]:
    if create.size != AUTO_SIZE:
        yield from _size((*at, "size"), create.size)
    if create.storage_class is not None and not is_object_name(create.storage_class):
        yield Problem((*at, "storageClass"), f"{quoted(create.storage_class)} is not a valid name of a StorageClass")
    yield from _access_modes(service, (*at, "accessModes"), create)


def _size(at: Path, size: str) -> Iterator[Problem]:
    found = list(quantity(at, size))
    yield from found
    if not found and parse_quantity(size) < _SMALLEST:
        instead = f"did you mean {size.strip()}Gi?" if size.strip().isdecimal() else "for example 200Gi, or auto"
        yield Problem(at, f"{quoted(size)} is {parse_quantity(size):,.0f} bytes; must be at least 1Mi", instead)


def _access_modes(service: LLMService, at: Path, create: NewClaim) -> Iterator[Problem]:
    modes = create.access_modes
    if not modes:
        yield Problem(at, "must have at least one access mode", _MANY)
    twice = [mode for mode, count in Counter(modes).items() if count > 1]
    if twice:
        yield Problem(at, f"contains {twice[0]} twice", _MANY)
    if "ReadWriteOncePod" in modes:
        others = " and cannot be combined with other modes" if len(modes) > 1 else ""
        yield Problem(at, f"ReadWriteOncePod is mounted by one pod, and head and workers are several{others}", _MANY)
    elif modes and set(modes) == {"ReadOnlyMany"}:
        yield Problem(at, "ReadOnlyMany cannot be written to, and a claim that is created is empty", _MANY)
    elif modes and "ReadWriteMany" not in modes and (why := _several_nodes(service)):
        yield Problem(
            at,
            f"ReadWriteOnce is mounted on one node, and the pods need more than one: {why}",
            f"{_MANY}, or a node for all pods: spec.scheduling.nodeSelector ({HOSTNAME})",
        )


def _several_nodes(service: LLMService) -> str:
    """Why pods of the service would be on several nodes, beside the head; empty if they may be on one."""
    if HOSTNAME in service.scheduling.node_selector:
        return ""
    if service.models:
        return "several models have workers of their own"
    if service.replicas.max > 1:
        return f"up to {service.replicas.max} replicas"
    if (service.parallelism.pipeline or 1) > 1 or service.parallelism.across_nodes:
        return "a replica spans nodes"
    if has_ingress(service):
        return "the ingress has workers of its own"
    return "spec.workerGroups" if service.worker_groups else ""

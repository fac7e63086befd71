"""Checks of the parts of an LLMService that become fields of pods: volumes, scheduling, resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.spec.service import LLMService, PodResources, Storage, TaintEffect, Toleration, Volume
from rayllm_ctl.model.text.patterns import DATA_KEY, DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, RAY_RESOURCE
from rayllm_ctl.model.text.problems import Path, Problem, quoted

EFFECTS = get_args(TaintEffect)

_OTHER_VOLUMES = {
    **dict.fromkeys(("shared-mem", "ray-logs", "ray-token"), "KubeRay adds a volume of this name"),
    "autoscaler-token": "the head has a volume of this name",
}
# KubeRay mounts volumes there in Ray containers (ray-operator/controllers/ray/common/pod.go).
_KUBERAY_PATHS = ("/dev/shm", "/tmp/ray")  # noqa: S108  paths in a container

RAY_OWN = ("CPU", "GPU", "TPU", "memory", "object_store_memory")
RAY_PREFIXES = ("node:", "accelerator_type:", "bundle")
_MOST_CPUS = 10_000
_LEAST_MEMORY, _MOST_MEMORY = 2**20, 2**50

_SMALLEST = 0.0001
"""Ray counts resources in units of this size (src/ray/common/constants.h, kResourceUnitScaling)."""


def pod_field_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    yield from _storage(service.storage)
    scheduling = service.scheduling
    yield from node_problems(("spec", "scheduling"), scheduling.node_selector, scheduling.tolerations)
    yield from ray_resource_problems(("spec", "scheduling"), scheduling.ray_resources, demanded=True)
    for pod in ("head", "worker", "ingress"):
        yield from pod_sizes(("spec", "resources", pod), getattr(service.resources, pod))


def is_absolute(path: str) -> bool:
    """An absolute path as Linux permits it, without `..`, empty parts or characters that no path should have."""
    parts = path.rstrip("/").split("/")[1:]
    proper = path.startswith("/") and path.isprintable() and all(part not in ("", "..", ".") for part in parts)
    return proper and len(path.encode()) < 4096 and all(len(part.encode()) < 256 for part in parts)


def is_object_name(name: str) -> bool:
    return len(name) <= 253 and DNS_SUBDOMAIN.fullmatch(name) is not None


def is_data_key(key: str) -> bool:
    return DATA_KEY.fullmatch(key) is not None and key not in (".", "..")


def _storage(storage: Storage) -> Iterator[Problem]:
    names: set[str] = set()
    paths: set[str] = set()
    for index, volume in enumerate(storage.volumes):
        at: Path = ("spec", "storage", "volumes", index)
        yield from _volume(at, volume)
        path = volume.mount_path.rstrip("/")
        if volume.name in names:
            yield Problem((*at, "name"), f"duplicate volume name {quoted(volume.name)}")
        if path in paths:
            yield Problem((*at, "mountPath"), f"duplicate mount path {quoted(volume.mount_path)}")
        names.add(volume.name)
        paths.add(path)


def _volume(at: Path, volume: Volume) -> Iterator[Problem]:
    if not DNS_LABEL.fullmatch(volume.name):
        yield Problem(
            (*at, "name"),
            f"{quoted(volume.name)} is not a valid volume name: it must consist of at most 63 lower-case letters, "
            "digits and '-', and start and end with a letter or digit",
        )
    elif volume.name in _OTHER_VOLUMES:
        yield Problem((*at, "name"), f"{quoted(volume.name)} is reserved: {_OTHER_VOLUMES[volume.name]}")
    if not is_absolute(volume.mount_path) or ":" in volume.mount_path or not volume.mount_path.strip("/"):
        yield Problem((*at, "mountPath"), f"{quoted(volume.mount_path)} is not an absolute path of a directory")
    elif volume.mount_path.rstrip("/") in _KUBERAY_PATHS:
        yield Problem((*at, "mountPath"), f"{quoted(volume.mount_path)} is reserved: KubeRay mounts a volume there")
    sources = {
        "persistentVolumeClaim": volume.persistent_volume_claim,
        "hostPath": volume.host_path,
        "configMap": volume.config_map,
        "secret": volume.secret,
    }
    given = {kind: source for kind, source in sources.items() if source is not None}
    if len(given) != 1:
        yield Problem(at, f"must have exactly one source, not {len(given)} ({', '.join(sources)})")
    for kind, source in given.items():
        if kind == "hostPath":
            if not is_absolute(source):
                yield Problem((*at, kind), f"{quoted(source)} is not an absolute path")
        elif not is_object_name(source):
            yield Problem(
                (*at, kind),
                f"{quoted(source)} is not a valid object name: it must consist of lower-case letters, digits, '-' "
                "and '.'",
            )
    if volume.config_map is not None and not volume.read_only:
        yield Problem((*at, "readOnly"), "must be true: Kubernetes mounts a ConfigMap read-only")
    if volume.secret is not None and not volume.read_only:
        yield Problem((*at, "readOnly"), "must be true: Kubernetes mounts a Secret read-only")


def node_problems(at: Path, selector: Mapping[str, str], tolerations: Sequence[Toleration]) -> Iterator[Problem]:
    """Problems of a node selector and tolerations."""
    for key, value in selector.items():
        here = (*at, "nodeSelector", key)
        if not is_label_key(key):
            yield Problem(here, f"{quoted(key)} is not a valid label key")
        if not LABEL_VALUE.fullmatch(value):
            yield Problem(here, f"{quoted(value)} is not a valid label value")
    for index, toleration in enumerate(tolerations):
        yield from _toleration((*at, "tolerations", index), toleration)


def ray_resource_problems(at: Path, resources: Mapping[str, float], *, demanded: bool) -> Iterator[Problem]:
    """Problems of custom Ray resources.

    demanded: what a process asks for may be a fraction; what a node offers is a whole number (Ray 2.60,
    _private/resource_and_label_spec.py).
    """
    for name, amount in resources.items():
        here = (*at, "rayResources", name)
        if not RAY_RESOURCE.fullmatch(name):
            yield Problem(here, f"{quoted(name)} is not a valid name of a custom resource")
        elif name in RAY_OWN or name.startswith(RAY_PREFIXES):
            yield Problem(here, f"{quoted(name)} is a resource of Ray's own")
        if not (1 <= amount < 2**31 and amount == int(amount)) and not (demanded and _SMALLEST <= amount < 1):
            fraction = f"a fraction of at least {_SMALLEST} or " if demanded else ""
            yield Problem(here, f"must be {fraction}a whole number of at least 1, not {amount}")


def _toleration(at: Path, toleration: Toleration) -> Iterator[Problem]:
    if not is_label_key(toleration.key):
        yield Problem((*at, "key"), f"{quoted(toleration.key)} is not a valid taint key")
    if toleration.value is not None and not LABEL_VALUE.fullmatch(toleration.value):
        yield Problem((*at, "value"), f"{quoted(toleration.value)} is not a valid taint value")
    if toleration.effect is not None and toleration.effect not in EFFECTS:
        yield Problem(
            (*at, "effect"),
            f"{quoted(toleration.effect)} is not supported (supported values: {', '.join(EFFECTS)})",
        )


def is_label_key(key: str) -> bool:
    """A label key: an optional DNS prefix and a name of at most 63 characters."""
    prefix, separator, name = key.rpartition("/")
    return bool(name) and LABEL_VALUE.fullmatch(name) is not None and (not separator or is_object_name(prefix))


def pod_sizes(at: Path, sizes: PodResources) -> Iterator[Problem]:
    """The problems of a pod's CPUs and memory."""
    found = list(quantity((*at, "cpu"), sizes.cpu))
    yield from found
    if sizes.cpu is not None and not found and parse_quantity(sizes.cpu) > _MOST_CPUS:
        message = f"{quoted(sizes.cpu)} is {parse_quantity(sizes.cpu):,.0f} CPUs; must be at most {_MOST_CPUS:,}"
        yield Problem((*at, "cpu"), message, "for example 500m or 4")
    yield from memory((*at, "memory"), sizes.memory)


def memory(at: Path, text: str | None) -> Iterator[Problem]:
    """The problem of an amount of memory. A number without a unit is bytes, which nobody means."""
    found = list(quantity(at, text))
    yield from found
    if text is not None and not found and parse_quantity(text) < _LEAST_MEMORY:
        message = f"{quoted(text)} is {parse_quantity(text):,.0f} bytes; must be at least 1Mi"
        yield Problem(
            at, message, f"did you mean {text.strip()}Gi?" if text.strip().isdecimal() else "for example 10Gi"
        )
    elif text is not None and not found and parse_quantity(text) > _MOST_MEMORY:
        yield Problem(at, f"{quoted(text)} is more than any machine has; must be at most 1Pi", "for example 10Gi")


def quantity(at: Path, text: str | None) -> Iterator[Problem]:
    """The problem of a quantity that must be greater than 0."""
    if text is None:
        return
    try:
        if parse_quantity(text) <= 0:
            yield Problem(at, f"must be greater than 0, not {text}")
    except ValueError as error:
        yield Problem(at, str(error))

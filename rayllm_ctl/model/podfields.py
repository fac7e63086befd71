"""What is wrong with the parts of an LLMService that become fields of pods: volumes, scheduling, resources."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.patterns import DATA_KEY, DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE
from rayllm_ctl.model.quantities import parse_quantity
from rayllm_ctl.model.service import LLMService, Scheduling, Storage, Toleration, Volume

FieldProblem = tuple[tuple[str | int, ...], str, str]
"""The path below spec, what is wrong, a hint (may be empty)."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# KubeRay adds these to every Ray container (ray-operator/controllers/ray/common/pod.go).
_KUBERAY_VOLUMES = ("shared-mem", "ray-logs", "ray-token")
_KUBERAY_PATHS = ("/dev/shm", "/tmp/ray")  # noqa: S108  paths in a container


def problems(service: LLMService) -> Iterator[FieldProblem]:
    yield from _storage(service.storage)
    yield from _scheduling(service.scheduling)
    for pod in ("head", "worker"):
        sizes = getattr(service.resources, pod)
        yield from _quantity(("resources", pod, "cpu"), sizes.cpu)
        yield from _quantity(("resources", pod, "memory"), sizes.memory)


def is_absolute(path: str) -> bool:
    """An absolute path without `..`, empty parts or characters that no path of a pod should have."""
    parts = path.rstrip("/").split("/")[1:]
    return path.startswith("/") and path.isprintable() and all(part not in ("", "..", ".") for part in parts)


def is_object_name(name: str) -> bool:
    return len(name) <= 253 and DNS_SUBDOMAIN.fullmatch(name) is not None


def is_data_key(key: str) -> bool:
    return DATA_KEY.fullmatch(key) is not None and key not in (".", "..")


def _storage(storage: Storage) -> Iterator[FieldProblem]:
    names: set[str] = set()
    paths: set[str] = set()
    for index, volume in enumerate(storage.volumes):
        at = ("storage", "volumes", index)
        yield from _volume(at, volume)
        path = volume.mount_path.rstrip("/")
        if volume.name in names:
            yield (*at, "name"), f"another volume is called {volume.name} as well", ""
        if path in paths:
            yield (*at, "mountPath"), f"another volume is mounted at {volume.mount_path} as well", ""
        names.add(volume.name)
        paths.add(path)


def _volume(at: tuple[str | int, ...], volume: Volume) -> Iterator[FieldProblem]:
    if not DNS_LABEL.fullmatch(volume.name):
        yield (*at, "name"), f"{volume.name!r} must be lower-case letters, digits and '-', at most 63 of them", ""
    elif volume.name in _KUBERAY_VOLUMES:
        yield (*at, "name"), f"KubeRay adds a volume called {volume.name} itself", ""
    if not is_absolute(volume.mount_path) or ":" in volume.mount_path or not volume.mount_path.strip("/"):
        yield (*at, "mountPath"), f"{volume.mount_path!r} is no absolute path of a folder in the pods", ""
    elif volume.mount_path.rstrip("/") in _KUBERAY_PATHS:
        yield (*at, "mountPath"), f"KubeRay mounts a volume of its own at {volume.mount_path}", ""
    sources = {
        "persistentVolumeClaim": volume.persistent_volume_claim,
        "hostPath": volume.host_path,
        "configMap": volume.config_map,
        "secret": volume.secret,
    }
    given = {kind: source for kind, source in sources.items() if source is not None}
    if len(given) != 1:
        yield at, f"a volume has one source, not {len(given)}: one of {', '.join(sources)}", ""
    for kind, source in given.items():
        if kind == "hostPath":
            if not is_absolute(source):
                yield (*at, kind), f"{source!r} is no absolute path", ""
        elif not is_object_name(source):
            yield (*at, kind), f"{source!r} cannot name an object: lower-case letters, digits, '-' and '.' only", ""
    if volume.config_map is not None and not volume.read_only:
        yield (*at, "readOnly"), "Kubernetes mounts a ConfigMap read-only", "leave out readOnly: false"
    if volume.secret is not None and not volume.read_only:
        yield (*at, "readOnly"), "Kubernetes mounts a Secret read-only", "leave out readOnly: false"


def _scheduling(scheduling: Scheduling) -> Iterator[FieldProblem]:
    for key, value in scheduling.node_selector.items():
        at = ("scheduling", "nodeSelector", key)
        if not _is_qualified(key):
            yield at, f"{key!r} is no label key", ""
        if not LABEL_VALUE.fullmatch(value):
            yield at, f"{value!r} is no label value", ""
    for index, toleration in enumerate(scheduling.tolerations):
        yield from _toleration(("scheduling", "tolerations", index), toleration)


def _toleration(at: tuple[str | int, ...], toleration: Toleration) -> Iterator[FieldProblem]:
    if not _is_qualified(toleration.key):
        yield (*at, "key"), f"{toleration.key!r} is no key of a taint", ""
    if toleration.value is not None and not LABEL_VALUE.fullmatch(toleration.value):
        yield (*at, "value"), f"{toleration.value!r} is no value of a taint", ""
    if toleration.effect is not None and toleration.effect not in EFFECTS:
        yield (*at, "effect"), f"{toleration.effect!r} is none of {', '.join(EFFECTS)}", ""


def _is_qualified(key: str) -> bool:
    """A label key: an optional DNS prefix and a name of at most 63 characters."""
    prefix, separator, name = key.rpartition("/")
    return bool(name) and LABEL_VALUE.fullmatch(name) is not None and (not separator or is_object_name(prefix))


def _quantity(at: tuple[str | int, ...], text: str | None) -> Iterator[FieldProblem]:
    if text is None:
        return
    try:
        if parse_quantity(text) <= 0:
            yield at, f"it must be above 0, not {text}", ""
    except (ValueError, OverflowError):
        yield at, f"{text!r} is not a Kubernetes quantity such as 500m, 4 or 16Gi", ""

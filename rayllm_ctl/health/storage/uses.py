"""The claims that rendered manifests mount for models and caches, and what the pods do with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.model_downloads import CACHE_VOLUME, CACHES_PATH, HUB_PATH, MODEL_VOLUME, MODELS_PATH
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.storage_facts import ClaimUse, Writer

CLAIM = "PersistentVolumeClaim"

_VOLUMES = (MODEL_VOLUME, CACHE_VOLUME)
"""Names of the volumes. Others, of spec.storage.volumes, may be mounted at the same paths."""

FILLED, MIRRORED = "spec.storage.model.claim", "spec.storage.model.mirror.to.claim"
"""The sections of a claim with the model's files: others have put them there, or a Job does."""

_SECTIONS: Mapping[str, tuple[str, str]] = {
    HUB_PATH: ("spec.storage.model.hub", "cache"),
    CACHES_PATH: ("spec.storage.caches", "compile"),
    MODELS_PATH: (FILLED, "name"),
}
"""By mount path the section of the spec, and the field with the claim's name in it."""

_MIRROR = (MIRRORED, "name")
"""The same for a claim that a Job fills."""


@dataclass(frozen=True)
class _Mount:
    claim: str
    path: str
    read_only: bool


def claim_uses(manifests: Sequence[Object], model_bytes: float | None) -> list[ClaimUse]:
    """The claims of the sections `storage.model` and `storage.caches`. model_bytes: of the model's files, if known."""
    created = {fields.name(item): item for item in manifests if fields.kind(item) == CLAIM}
    filled = {
        mount.claim
        for item in manifests
        if fields.kind(item) == "Job"
        for mount in _mounts(fields.mapping(item, "spec", "template"))
        if mount.path == MODELS_PATH and not mount.read_only
    }
    pods = [pair for item in manifests if fields.kind(item) != "Job" for pair in _templates(item)]
    mounts = {id(template): list(_mounts(template)) for template, _ in pods}
    found: dict[str, str] = dict.fromkeys(filled, MODELS_PATH)
    for template, _ in pods:
        found |= {mount.claim: mount.path for mount in mounts[id(template)]}
    uses = []
    for claim, path in found.items():
        mounting = [
            (template, count) for template, count in pods
            if any(mount.claim == claim for mount in mounts[id(template)])
        ]  # fmt: skip
        written = any(
            not mount.read_only
            for template, _ in mounting
            for mount in mounts[id(template)]
            if mount.claim == claim and mount.path != MODELS_PATH
        )
        writer: Writer = "the download Job" if claim in filled else "the pods" if written else ""
        section, key = _MIRROR if claim in filled else _SECTIONS[path]
        templates = tuple(template for template, _ in mounting)
        count = sum(number for _, number in mounting)
        size = None if path == CACHES_PATH else model_bytes
        uses.append(ClaimUse(claim, section, key, writer, templates, count, created.get(claim), size))
    return uses


def _templates(manifest: Object) -> Iterator[tuple[Object, int]]:
    """The pod templates of an object that KubeRay runs, each with the most pods that there are of it."""
    spec: Mapping[str, Any] = cluster_spec(manifest)
    if head := fields.mapping(spec, "headGroupSpec", "template"):
        yield head, 1
    for group in fields.items(spec, "workerGroupSpecs"):
        most = fields.integer(group, "maxReplicas", default=fields.integer(group, "replicas", default=1))
        yield fields.mapping(group, "template"), max(most, 1) * fields.integer(group, "numOfHosts", default=1)


def _mounts(template: Object) -> Iterator[_Mount]:
    """The claims that the containers of a template mount for models and caches."""
    pod = fields.mapping(template, "spec")
    claims = {
        fields.text(volume, "name"): volume
        for volume in fields.items(pod, "volumes")
        if fields.text(volume, "name") in _VOLUMES and fields.mapping(volume, "persistentVolumeClaim")
    }
    for container in (*fields.items(pod, "initContainers"), *fields.items(pod, "containers")):
        for mount in fields.items(container, "volumeMounts"):
            volume, path = claims.get(fields.text(mount, "name")), fields.text(mount, "mountPath")
            if volume is None or path not in _SECTIONS:
                continue
            source = fields.mapping(volume, "persistentVolumeClaim")
            read_only = fields.flag(mount, "readOnly") or fields.flag(source, "readOnly")
            yield _Mount(fields.text(source, "claimName"), path, read_only)

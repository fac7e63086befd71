"""The pods of rendered manifests, and the objects that they cannot start without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Need
from rayllm_ctl.model.observed.health import Object

_EVERYWHERE = ("ConfigMap", "kube-root-ca.crt")
"""Kubernetes makes it in each namespace (controller manager, root-ca-cert-publisher)."""


def pod_templates(manifest: Object) -> dict[str, Object]:
    """The pod templates of a rendered RayService, RayCluster, Deployment or Job, by what they are for."""
    if fields.kind(manifest) in ("Deployment", "Job"):
        who = f"{fields.kind(manifest).lower()}/{fields.name(manifest)}"
        return {who: fields.mapping(manifest, "spec", "template")}
    spec = cluster_spec(manifest)
    found: dict[str, Object] = {}
    if head := fields.mapping(spec, "headGroupSpec", "template"):
        found["the head"] = head
    for group in fields.items(spec, "workerGroupSpecs"):
        found[f"workers of group {fields.text(group, 'groupName')}"] = fields.mapping(group, "template")
    return found


def needs(manifests: Iterable[Object]) -> list[Need]:
    """What the pods of `manifests` name and do not bring along, without what is optional."""
    listed = list(manifests)
    there = {(fields.kind(item), fields.name(item)) for item in listed} | {_EVERYWHERE}
    found: dict[Need, None] = {}
    for manifest in listed:
        for template in pod_templates(manifest).values():
            found |= dict.fromkeys(_of_pod(fields.mapping(template, "spec")))
    return [need for need in found if (need.kind, need.name) not in there]


def _of_pod(spec: Object) -> Iterator[Need]:
    for secret in fields.items(spec, "imagePullSecrets"):
        yield Need("Secret", fields.text(secret, "name"))
    if account := fields.text(spec, "serviceAccountName"):
        yield Need("ServiceAccount", account)
    if priority := fields.text(spec, "priorityClassName"):
        yield Need("PriorityClass", priority)
    for volume in fields.items(spec, "volumes"):
        yield from _of_volume(volume)
    for field in ("initContainers", "containers"):
        for container in fields.items(spec, field):
            yield from _of_environment(container)


def _of_volume(volume: Object) -> Iterator[Need]:
    if claim := fields.mapping(volume, "persistentVolumeClaim"):
        yield Need("PersistentVolumeClaim", fields.text(claim, "claimName"))
    sources = [volume, *fields.items(volume, "projected", "sources")]
    for source in sources:
        for kind, field, key in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
            named = fields.mapping(source, field)
            name = fields.text(named, key) or fields.text(named, "name")
            if not name or named.get("optional"):
                continue
            keys = [fields.text(item, "key") for item in fields.items(named, "items")]
            yield from (Need(kind, name, key) for key in keys or ("",))


def _of_environment(container: Object) -> Iterator[Need]:
    for source in fields.items(container, "envFrom"):
        for kind, field in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            yield from _named(kind, fields.mapping(source, field), "")
    for variable in fields.items(container, "env"):
        for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
            named = fields.mapping(variable, "valueFrom", field)
            yield from _named(kind, named, fields.text(named, "key"))


def _named(kind: str, named: Mapping[str, Any], key: str) -> Iterator[Need]:
    if named.get("name") and not named.get("optional"):
        yield Need(kind, str(named["name"]), key)

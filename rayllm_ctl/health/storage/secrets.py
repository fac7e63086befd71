"""The Secrets that pods need to reach the storage of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.health.objects.pod_needs import needs, pod_templates
from rayllm_ctl.model.kube.model_downloads import SOURCE_VOLUME, TARGET_VOLUME, is_download
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Need
from rayllm_ctl.model.observed.health import Object

_PREFIXES = ("AWS_", "SOURCE_AWS_", "TARGET_AWS_")
"""Variables with the keys of buckets."""

_GOOGLE_FILE = "credentials.json"
"""Key of a Secret with the credentials of a gs:// bucket, which is mounted from volumes of these names."""

_GOOGLE_VOLUMES = (SOURCE_VOLUME, TARGET_VOLUME)


def storage_secrets(manifests: Sequence[Object]) -> list[Need]:
    """Secrets, with their keys, of download Jobs and of pods that read from buckets."""
    jobs = [one for one in manifests if is_download(one)]
    of_jobs = [need for need in needs(jobs) if need.kind == "Secret" and need.key]
    templates = [one for item in manifests for one in pod_templates(item).values()]
    of_pods = [need for one in templates for need in _of_pod(fields.mapping(one, "spec"))]
    made = {fields.name(item) for item in manifests if fields.kind(item) == "Secret"}
    return [need for need in dict.fromkeys((*of_jobs, *of_pods)) if need.name not in made]


def _of_pod(spec: Object) -> Iterator[Need]:
    for container in (*fields.items(spec, "initContainers"), *fields.items(spec, "containers")):
        for variable in fields.items(container, "env"):
            source = fields.mapping(variable, "valueFrom", "secretKeyRef")
            if source and not source.get("optional") and fields.text(variable, "name").startswith(_PREFIXES):
                yield Need("Secret", fields.text(source, "name"), fields.text(source, "key"))
    for volume in fields.items(spec, "volumes"):
        secret = fields.mapping(volume, "secret")
        if secret and fields.text(volume, "name") in _GOOGLE_VOLUMES:
            yield Need("Secret", fields.text(secret, "secretName"), _GOOGLE_FILE)

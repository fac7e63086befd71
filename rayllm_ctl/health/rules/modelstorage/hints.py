"""What to type next where a model's storage is at fault: fields of the spec, and the Job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.model_jobs import ModelJob
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.model.kube.model_downloads import CACHES_PATH, HUB_PATH, MODELS_PATH, WAIT_CONTAINER
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.model_downloads import DownloadFailure
from rayllm_ctl.model.text.hint import Hint

_FIELDS = {CACHES_PATH: "spec.storage.caches", HUB_PATH: "spec.storage.model.hub"}

_READ_ONLY = re.compile(r"read-only|EROFS", re.I)


def claim_field(context: ServiceContext, pod: Pod, claim: str = "") -> str:
    """The field of the spec that names a claim of a pod; "the claim" if the pod's volume is the user's own.

    claim: its name; empty: that of the model.
    """
    mounted = dict(mounted_claims(pod))
    for path, name in mounted.items():
        if claim in ("", name) and path in _FIELDS and (claim or path != CACHES_PATH):
            return _FIELDS[path]
    if claim in ("", mounted.get(MODELS_PATH, "")) and MODELS_PATH in mounted:
        mirrored = bool(context.model_jobs) or any(
            fields.text(one, "name") == WAIT_CONTAINER for one in fields.items(pod.item, "spec", "initContainers")
        )
        return "spec.storage.model.mirror.to.claim" if mirrored else "spec.storage.model.claim"
    return "the claim"


def access_modes_hints(context: ServiceContext, pod: Pod, claim: str) -> tuple[Hint, ...]:
    """How to give several nodes a volume."""
    field = claim_field(context, pod, claim)
    look = Hint(f"kubectl get pvc {claim} -n {context.namespace} -o jsonpath='{{.spec.accessModes}}'")
    if not field.startswith("spec."):
        return (look,)
    change = f"{field}.create.accessModes: [ReadWriteMany] with a new claim; those of a claim cannot be changed"
    return (Hint(remark=change), look)


def zone_hints(context: ServiceContext, pod: Pod, claim: str) -> tuple[Hint, ...]:
    """What helps if the volume is in another zone than the nodes that the pod may run on."""
    field = claim_field(context, pod, claim)
    remark = f"{field}.create.storageClass: " if field.startswith("spec.") else ""
    return (
        Hint(
            remark=f"{remark}one of a file system that all zones reach, or nodes of the volume's zone (--node-selector)"
        ),
        Hint("kubectl get nodes -L topology.kubernetes.io/zone"),
    )


def download_hints(context: ServiceContext, job: ModelJob, code: str, failure: DownloadFailure) -> tuple[Hint, ...]:
    """What helps against a failed download, by its code. What the Job itself suggests comes first."""
    own = (Hint(remark=failure.hint),) if failure.hint else ()
    return (*own, *_by_code(context, job, code, failure))


def _by_code(context: ServiceContext, job: ModelJob, code: str, failure: DownloadFailure) -> tuple[Hint, ...]:
    namespace, hub = context.namespace, job.source.startswith("hf://")
    match code:
        case "DownloadUnauthorized" if hub:
            page = f"https://huggingface.co/{job.model}"
            return (Hint(f"{context.deploy} --hf-token-secret NAME/KEY", f"a token with access granted at {page}"),)
        case "DownloadUnauthorized":
            return (
                Hint(
                    f"kubectl get secret -n {namespace}",
                    "spec.storage.model.mirror.secret (source) or .to.objectStore.secret (target) names its keys",
                ),
            )
        case "DownloadNotFound":
            field = "--model and --revision" if hub else "spec.storage.model.mirror.from, and the target's bucket"
            return (Hint(remark=f"{field}: one that exists"),)
        case "DownloadThrottled" if hub:
            return (
                Hint(f"{context.deploy} --hf-token-secret NAME/KEY", "the Hub's limits are higher for known users"),
            )
        case "DownloadUnreachable":
            return (
                Hint(f"{context.deploy} --env HTTPS_PROXY=http://PROXY:PORT", "or HF_ENDPOINT of a mirror of the Hub"),
                Hint(f"kubectl get networkpolicy -n {namespace}", "one that keeps the Job from the source"),
            )
        case "DownloadNoSpace":
            return (
                Hint(
                    f"kubectl get pvc -n {namespace}",
                    "a larger spec.resources.requests.storage, if its StorageClass allows expansion",
                ),
                Hint("kubectl get storageclass", "allowVolumeExpansion"),
            )
        case "OOMKilled":
            return (
                Hint(f"kubectl get job {job.name} -n {namespace} -o jsonpath='{{..resources}}'", "its memory limit"),
            )
        case "Evicted":
            return (
                Hint(f"kubectl get events -n {namespace} --field-selector reason=Evicted"),
                Hint("kubectl top node"),
            )
        case _ if _READ_ONLY.search(failure.message) and job.pods:
            return access_modes_hints(context, job.pods[0], _claim_of(job.pods[0]))
        case _:
            return ()


def job_hints(context: ServiceContext, job: ModelJob, *, over: bool) -> tuple[Hint, ...]:
    """How to see more of a Job, and how to run it again once it is over."""
    logs = Hint(f"rayllm-ctl logs {context.name} -n {context.namespace} --download")
    if context.of_batch:
        logs = Hint(f"kubectl logs job/{job.name} -n {context.namespace}")
    if not over:
        return (logs,)
    again = "the next deploy creates it again, and it continues where it stopped"
    return (Hint(f"kubectl delete job {job.name} -n {context.namespace}", again), logs)


def _claim_of(pod: Pod) -> str:
    return next((name for _, name in mounted_claims(pod)), "")


def mounted_claims(pod: Pod) -> Iterator[tuple[str, str]]:
    """Where the containers of a pod mount claims, and their names."""
    claims = {
        fields.text(one, "name"): fields.text(one, "persistentVolumeClaim", "claimName")
        for one in fields.items(pod.item, "spec", "volumes")
        if fields.text(one, "persistentVolumeClaim", "claimName")
    }
    containers = (*fields.items(pod.item, "spec", "containers"), *fields.items(pod.item, "spec", "initContainers"))
    for mount in (mount for container in containers for mount in fields.items(container, "volumeMounts")):
        name = fields.text(mount, "name")
        if name in claims:
            yield fields.text(mount, "mountPath"), claims[name]

"""What to type next where a model's storage is at fault: fields of the spec, and the Job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.model_jobs import ModelJob
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.storage.uses import FILLED, MIRRORED
from rayllm_ctl.model.kube.model_downloads import CACHES_PATH, HUB_PATH, MODELS_PATH, WAIT_CONTAINER
from rayllm_ctl.model.kube.owned import reconciled_owner
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.model_downloads import DownloadFailure
from rayllm_ctl.model.text.hint import Hint

_FIELDS = {CACHES_PATH: "spec.storage.caches", HUB_PATH: "spec.storage.model.hub"}

_FLAGS = {
    "spec.storage.model.mirror.from": "--from",
    "spec.model.revision": "--revision",
    "spec.model.id": "MODEL",
    "spec.engine.env": "--env",
}
"""Fields that a Job names in its hints, and the flags of `fetch` for them."""

_READ_ONLY = re.compile(r"read-only|EROFS", re.I)


def claim_field(context: ServiceContext, pod: Pod, claim: str = "") -> str:
    """The field of the spec that names a claim of a pod; "the claim" if the pod's volume is the user's own.

    claim: its name; empty: that of the model.
    """
    mounted = dict(mounted_claims(pod))
    for path, name in mounted.items():
        if claim in ("", name) and path in _FIELDS and (claim or path != CACHES_PATH):
            return _FIELDS[path]
    if claim in ("", mounted.get(MODELS_PATH, "")) and MODELS_PATH in mounted and not context.of_fetch:
        mirrored = bool(context.model_jobs) or any(
            fields.text(one, "name") == WAIT_CONTAINER for one in fields.items(pod.item, "spec", "initContainers")
        )
        return MIRRORED if mirrored else FILLED
    return "the claim"


def access_modes_hints(context: ServiceContext, pod: Pod, claim: str) -> tuple[Hint, ...]:
    """How to give several nodes a volume."""
    field = claim_field(context, pod, claim)
    look = Hint(f"kubectl get pvc {claim} -n {context.namespace} -o jsonpath='{{.spec.accessModes}}'")
    if field == FILLED:
        return Hint(remark=f"name a claim with access mode ReadWriteMany in {field}.name"), look
    if not field.startswith("spec."):
        return (look,)
    change = f"{field}.create.accessModes: [ReadWriteMany] with a new claim; those of a claim cannot be changed"
    return (Hint(remark=change), look)


def zone_hints(context: ServiceContext, pod: Pod, claim: str) -> tuple[Hint, ...]:
    """What helps if the volume is in another zone than the nodes that the pod may run on."""
    field, nodes = claim_field(context, pod, claim), Hint("kubectl get nodes -L topology.kubernetes.io/zone")
    shared = "one of a file system that all zones reach"
    if context.of_fetch:
        return Hint(f"{context.deploy} --storage-class NAME", f"{shared}, with a new claim"), nodes
    remark = f"{field}.create.storageClass: " if field.startswith("spec.") and field != FILLED else ""
    return Hint(remark=f"{remark}{shared}, or nodes of the volume's zone (--node-selector)"), nodes


def download_hints(context: ServiceContext, job: ModelJob, code: str, failure: DownloadFailure) -> tuple[Hint, ...]:
    """What helps against a failed download, by its code. What the Job itself suggests comes first."""
    own = (Hint(remark=_named(context, failure.hint)),) if failure.hint else ()
    return (*own, *_by_code(context, job, code, failure))


def source_field(context: ServiceContext) -> str:
    """What names the source of a download."""
    return _named(context, "spec.storage.model.mirror.from")


def _named(context: ServiceContext, text: str) -> str:
    """What a Job suggests, with the flags of `fetch` in place of the fields of a spec that it does not have."""
    for field, flag in _FLAGS.items() if context.of_fetch else ():
        text = text.replace(field, flag)
    return text


def _by_code(context: ServiceContext, job: ModelJob, code: str, failure: DownloadFailure) -> tuple[Hint, ...]:
    namespace, hub = context.namespace, job.source.startswith("hf://")
    match code:
        case "DownloadUnauthorized" if hub:
            page = f"https://huggingface.co/{job.model}"
            return (_token(context, job, f"a token with access granted at {page}"),)
        case "DownloadUnauthorized":
            field = "spec.storage.model.mirror.secret (source) or .to.objectStore.secret (target)"
            named = "--storage-secret" if context.of_fetch else field
            return (Hint(f"kubectl get secret -n {namespace}", f"{named} names the one with the credentials"),)
        case "DownloadNotFound":
            return (_place(context, job, hub),)
        case "DownloadThrottled" if hub:
            return (_token(context, job, "the Hub's limits are higher for known users"),)
        case "DownloadUnreachable":
            proxy, mirror = "HTTPS_PROXY", "or HF_ENDPOINT of a mirror of the Hub"
            return (
                _edited(context, job, f"spec.engine.env: {proxy}, {mirror}")
                or Hint(f"{context.deploy} --env {proxy}=http://PROXY:PORT", mirror),
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


def _token(context: ServiceContext, job: ModelJob, why: str) -> Hint:
    return _edited(context, job, f"tokenSecret of the model: {why}") or Hint(
        f"{context.deploy} --hf-token-secret NAME/KEY", why
    )


def _place(context: ServiceContext, job: ModelJob, hub: bool) -> Hint:
    """Where a model is named that the source does not have."""
    if context.of_fetch:
        named = "MODEL and --revision" if hub else "--from, and the bucket of --to"
        return Hint(context.deploy, f"{named}: one that exists")
    if hub:
        return _edited(context, job, "id and revision of the model: one that exists") or Hint(
            f"{context.deploy} --model NAME --revision REVISION", "one that exists"
        )
    return Hint(remark="spec.storage.model.mirror.from, and the target's bucket: one that exists")


def _edited(context: ServiceContext, job: ModelJob, remark: str) -> Hint | None:
    """How a field is changed of a Job that the controller makes; None of any other, which a command makes."""
    kind, name = _owner(context, job)
    return Hint(f"kubectl edit {kind.lower()} {name} -n {context.namespace}", remark) if kind else None


def _owner(context: ServiceContext, job: ModelJob) -> tuple[str, str]:
    """Kind and name of the LLMService or BatchJob of a Job. Of one that could not be read, that of what it is for."""
    return reconciled_owner(job.item or (context.service.item if context.service is not None else {}))


def log_hint(context: ServiceContext, job: ModelJob) -> Hint:
    """How to read the log of a Job."""
    if context.of_batch or context.of_fetch:
        return Hint(f"kubectl logs job/{job.name} -n {context.namespace}")
    return Hint(f"rayllm-ctl logs {context.name} -n {context.namespace} --download")


def job_hints(context: ServiceContext, job: ModelJob, *, over: bool) -> tuple[Hint, ...]:
    """How to see more of a Job, and how to run it again once it is over."""
    logs = log_hint(context, job)
    if not over:
        return (logs,)
    kind, _ = _owner(context, job)
    delete, continues = "kubectl delete", "and the download continues where it stopped"
    if context.of_fetch:
        again = Hint(context.deploy, f"the same command starts it again, {continues}")
    else:
        maker = "the controller" if kind else f"the next {'batch submit' if context.of_batch else 'deploy'}"
        again = Hint(f"{delete} job {job.name} -n {context.namespace}", f"{maker} creates it again, {continues}")
    return again, logs


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

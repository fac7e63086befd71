"""End a batch job, or run a finished one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.delete_job import delete_job, remove_job
from rayllm_ctl.cluster.apply.inventory import entry
from rayllm_ctl.cluster.lookup.jobs import require_job
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.workflows.batch.status import one_job

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_ENDED = ("Complete", "Failed", "ValidationFailed")
"""Terminal values of a RayJob's jobDeploymentStatus (rayjob_types.go, v1.6.2)."""


def how_it_ended(cluster: Cluster, job: Mapping[str, Any], namespace: str) -> str:
    """The outcome of a job in one word; "" while it runs.

    The driver reports the outcome some seconds before KubeRay does.
    """
    state = str((job.get("status") or {}).get("jobDeploymentStatus") or "")
    if state in _ENDED:
        return state
    if state != "Running":
        return ""
    outcome = one_job(cluster, job["metadata"]["name"], namespace).health.outcome
    return "" if outcome is None else outcome.value


def replacement_note(name: str, ended: str) -> Noted:
    """The note before a finished RayJob is deleted and created again, which waits until its pods are gone."""
    return Noted(f"rayjob/{name} has ended ({ended}); waiting for it and its pods to be deleted before it starts again")


def cancel_job(
    cluster: Cluster, name: str, namespace: str, *, wait: bool, timeout: float, ignore_not_found: bool
) -> Iterator[Applied | Noted]:
    """Delete batch job `name` and the objects applied for it; see cluster.apply.delete_job. Its output stays."""
    require_rights(cluster, namespace, JOB_RIGHTS["cancel"].needed)
    yield from delete_job(cluster, name, namespace, wait=wait, timeout=timeout, ignore_not_found=ignore_not_found)


def resume_job(cluster: Cluster, name: str, namespace: str, *, timeout: float) -> Iterator[Applied | Noted]:
    """Replace the RayJob of a finished job with an identical one: KubeRay does not run a RayJob twice. The driver
    computes only the missing rows. timeout: seconds for the old one to be gone.

    Raises NotFoundError when there is no such job, UserError while it runs or if KubeRay rejects its spec.
    """
    require_rights(cluster, namespace, JOB_RIGHTS["resume"].needed)
    job = require_job(cluster, name, namespace)
    ended = how_it_ended(cluster, job, namespace)
    _reject_unfinished(job, ended, name, namespace)
    manifest = again(job)
    yield replacement_note(name, ended)
    yield from remove_job(cluster, name, namespace, [entry(job)], wait=True, timeout=timeout)
    try:
        yield from (applied for applied, _ in apply(cluster, [manifest]))
    except UserError as error:
        raise UserError(
            f"rayjob/{name} was deleted, but could not be created again: {error.message}",
            hint=(*error.hints, "run the rayllm-ctl batch submit of this job again: it computes only the missing rows"),
            exit_code=error.exit_code,
        ) from error


def again(job: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a RayJob as it was applied: without its status and what the API server and KubeRay added."""
    metadata = job["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if metadata.get(key)}
    spec = {key: value for key, value in job["spec"].items() if key != "suspend"}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": kept, "spec": spec}


def _reject_unfinished(job: Mapping[str, Any], ended: str, name: str, namespace: str) -> None:
    status = job.get("status") or {}
    state = status.get("jobDeploymentStatus") or "new"
    where = f"{name} -n {namespace}"
    if "deletionTimestamp" in job["metadata"]:
        raise UserError(
            f"{name} is being deleted",
            hint=(f"rayllm-ctl batch cancel {where}    # wait until it is gone", "then submit it again"),
        )
    if state == "ValidationFailed":
        raise UserError(
            f"KubeRay rejects the RayJob of {name}: {status.get('message', '')}",
            hint=(f"rayllm-ctl batch cancel {where}", "then submit a corrected one"),
        )
    if not ended:
        raise UserError(
            f"{name} is still running (RayJob status: {state})",
            hint=(f"rayllm-ctl batch watch {where}", f"rayllm-ctl batch cancel {where}"),
        )

"""Submit a batch job: plan, render, check the cluster, apply."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.delete import delete_all
from rayllm_ctl.cluster.apply.inventory import applied_by_us, entry
from rayllm_ctl.cluster.apply.leftovers import Leftovers
from rayllm_ctl.cluster.apply.prune import prune
from rayllm_ctl.cluster.lookup.services import find_object
from rayllm_ctl.cluster.preflight.preflight import check_rights, preflight
from rayllm_ctl.cluster.snapshot.model_jobs import DOWNLOAD_RIGHTS
from rayllm_ctl.console.batch.plan import takes
from rayllm_ctl.errors import NO_ANSWER, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Applied, Event, Noted, Planned, Rendered
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.labels import BATCH, MANAGED_BY, MANAGER
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.workflows.batch.end import how_it_ended, replacement_note
from rayllm_ctl.workflows.batch.prerequisites import for_kuberay, has_storage, require_job_storage, require_pool
from rayllm_ctl.workflows.render.batch import BatchRendering, batch_rendering
from rayllm_ctl.workflows.render.controlled import require_deployable
from rayllm_ctl.workflows.render.types import RenderOptions
from rayllm_ctl.workflows.rollout.manifests import placed
from rayllm_ctl.workflows.rollout.model_storage.apply import download_jobs
from rayllm_ctl.workflows.rollout.model_storage.checks import storage_rights
from rayllm_ctl.workflows.rollout.model_storage.download import ModelUser, download_models_for

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.apply.inventory import Entry

RAY_JOB = "RayJob"
_NAMED_AFTER_CONTENT = ("ConfigMap", "Job")
"""Kinds of objects that another run of the job has under other names."""


DELETION_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """dry_run: "client" ends after rendering, "server" lets the API server check; neither writes anything.

    wait: apply the RayJob once its model is downloaded, within `timeout` seconds (None: no limit).
    """

    dry_run: Literal["none", "client", "server"] = "none"
    wait: bool = False
    timeout: float | None = None
    force_conflicts: bool = False
    render: RenderOptions = RenderOptions()


def submit(batch: BatchJob, options: SubmitOptions, connect: Callable[[], Cluster]) -> Iterator[Event | Rendered]:
    """Apply `batch`, yielding Planned, Noted, Rendered, Checked, Applied and Downloading, without waiting for its end.

    A finished job of this name is replaced: its driver computes only the missing rows. Raises UserError before anything
    is applied if the plan, the manifests or the cluster rule the job out, or if it is running; before the RayJob is
    applied if the download of its model fails.
    """
    require_deployable(batch)
    client = options.dry_run == "client"
    # The cluster's version is not known yet; manifests that the newest version rejects cannot run anywhere.
    how = options.render if client else replace(options.render, kuberay=VERSIONS[-1])
    made = batch_rendering(batch, how)
    yield Planned(made.plan.plan)
    if made.plan.estimate is not None:
        yield Noted(takes(made.plan.estimate))
    yield from map(Noted, made.notes)
    yield Rendered(made.manifests)
    if client:
        return
    cluster = connect()
    namespace = batch.namespace or cluster.namespace
    yield from _apply(cluster, batch, made, namespace, options, how)


def _apply(
    cluster: Cluster, batch: BatchJob, made: BatchRendering, namespace: str, options: SubmitOptions, how: RenderOptions
) -> Iterator[Event]:
    dry = options.dry_run == "server"
    kinds = dict.fromkeys(str(manifest["kind"]) for manifest in made.manifests)
    rights = submit_rights(kinds, pool=batch.cluster is not None) | _storage_rights(made, options)
    checks = preflight(cluster, RAY_JOB, batch.name, namespace, rights.needed)
    existing = checks.existing
    for checked in (*checks.checks, check_rights(checks.permissions, rights)):
        yield checked
        if checked is checks.checks[0]:
            made = yield from for_kuberay(batch, made, how, checks.kuberay)
    require_pool(cluster, batch, namespace)
    ended = _require_ended(cluster, existing, namespace)
    manifests = [placed(manifest, namespace) for manifest in made.manifests]
    manifests = [*(yield from require_job_storage(cluster, made, manifests, namespace))]
    first: list[Applied] = []
    if not dry and download_jobs(manifests):
        first = yield from _download(cluster, batch.name, namespace, manifests, options, replaces=bool(ended))
        if options.wait:  # meanwhile another client may have submitted a job of this name
            existing = find_object(cluster, RAY_JOB, batch.name, namespace)
            ended = _require_ended(cluster, existing, namespace)
    if existing is not None:
        yield from _replace_ended(cluster, existing, ended, namespace, dry=dry)
    if existing is None or not dry:
        there = {(event.kind, event.name) for event in first}
        rest = [item for item in manifests if (item["kind"], item["metadata"]["name"]) not in there]
        for applied, _ in apply(
            cluster, rest, dry_run="server" if dry else "none", force_conflicts=options.force_conflicts
        ):
            yield applied
    yield from prune(cluster, _old_objects(cluster, batch.name, namespace, manifests), dry_run=dry)


def submit_rights(kinds: Collection[str], *, pool: bool) -> Rights:
    """The rights to submit a job whose objects are of `kinds`. pool: it runs on a RayCluster that is there."""
    return Rights(
        needed=(
            *(Right(verb, kind) for kind in kinds for verb in ("get", "create", "patch")),
            *(Right(verb, kind) for kind in _NAMED_AFTER_CONTENT if kind in kinds for verb in ("list", "delete")),
            Right("delete", RAY_JOB),
            *((Right("get", "RayCluster"),) if pool else ()),
        ),
        display=(Right("get", "Namespace"), Right("list", "Deployment", everywhere=True)),
    )


def _storage_rights(made: BatchRendering, options: SubmitOptions) -> Rights:
    """The optional rights to check the storage, and the rights to follow the download."""
    if not has_storage(made):
        return Rights()
    follows = options.wait and options.dry_run == "none" and bool(download_jobs(made.manifests))
    return storage_rights(made.manifests) | (DOWNLOAD_RIGHTS if follows else Rights())


def _download(
    cluster: Cluster, name: str, namespace: str, manifests: Sequence[Mapping[str, Any]], options: SubmitOptions,
    *, replaces: bool,
) -> Generator[Event, None, list[Applied]]:  # fmt: skip
    """Apply what downloads the model, and wait until it is complete. replaces: whether an ended RayJob is there."""
    state = f"rayjob/{name} {'was not replaced' if replaces else 'was not applied'}"
    user = ModelUser(name=name, namespace=namespace, state=state, batch=True, failed=NO_ANSWER)
    limit = None if not options.wait else math.inf if options.timeout is None else options.timeout
    return (yield from download_models_for(user, cluster, manifests, limit, force_conflicts=options.force_conflicts))


def _require_ended(cluster: Cluster, existing: Mapping[str, Any] | None, namespace: str) -> str:
    """How the job of this name ended; empty if there is none. Raises UserError if it cannot be replaced."""
    if existing is None:
        return ""
    name = existing["metadata"]["name"]
    if existing["metadata"].get("labels", {}).get(BATCH) != name:
        raise UserError(
            f"rayjob/{name} exists in namespace {namespace} and is not a batch job of rayllm-ctl",
            hint="--name NAME    # another name",
        )
    ended = how_it_ended(cluster, existing, namespace)
    if not ended:
        state = str((existing.get("status") or {}).get("jobDeploymentStatus") or "just submitted")
        raise UserError(
            f"batch job {name} is running in namespace {namespace} ({state})",
            hint=(f"rayllm-ctl batch watch {name} -n {namespace}", "--name NAME    # another name, and another output"),
        )
    return ended


def _replace_ended(
    cluster: Cluster, existing: Mapping[str, Any], ended: str, namespace: str, *, dry: bool
) -> Iterator[Event]:
    """Delete a finished job: KubeRay does not start a RayJob again."""
    name = existing["metadata"]["name"]
    if dry:
        yield Noted(f"rayjob/{name} has ended ({ended}) and would be replaced")
        return
    yield replacement_note(name, ended)
    ended_job = [entry(existing)]
    deadline = time.monotonic() + DELETION_SECONDS
    for _ in delete_all(cluster, ended_job):
        pass  # reported when it is gone: the API server deletes its pods first
    left = Leftovers(cluster, name, namespace, f"kubectl get rayjob {name} -n {namespace} -o yaml    # its finalizers")
    yield from left.wait(ended_job, deadline, DELETION_SECONDS)
    if find_object(cluster, RAY_JOB, name, namespace) is not None:
        raise UserError(f"rayjob/{name} was created by another client", hint="run the command again")


def _old_objects(cluster: Cluster, name: str, namespace: str, manifests: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The code, settings and downloads of earlier runs of the job, which nothing mounts any more."""
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    kinds = [kind for kind in _NAMED_AFTER_CONTENT if kind in {kind for kind, _ in wanted}]
    selector = f"{MANAGED_BY}={MANAGER},{BATCH}={name}"
    return [
        entry(item)
        for kind in kinds
        for item in cluster.list(kind, namespace, label_selector=selector)
        if (kind, item["metadata"]["name"]) not in wanted and applied_by_us(item)
    ]

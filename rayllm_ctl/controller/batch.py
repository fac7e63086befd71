"""One step for one BatchJob. It is run once for each spec: what has ended is not started again.

The digest of the spec goes into the status before anything is applied, so a controller that ends in between continues,
and one that finds no RayJob of a job that has ended knows that it was cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.preflight.versions import kuberay_version
from rayllm_ctl.cluster.snapshot.job import JobCollector
from rayllm_ctl.controller.caches import ObjectCaches
from rayllm_ctl.controller.conditions import StatusCondition, as_conditions, make_condition
from rayllm_ctl.controller.decide import LATER_SECONDS, to_apply
from rayllm_ctl.controller.declared import Declared, SpecProblem, declare, with_hints
from rayllm_ctl.controller.propose import rejection, result_of
from rayllm_ctl.controller.stages import downloads_of, first_stage, incomplete_jobs, without
from rayllm_ctl.controller.types import ChildKey, Key, child_key
from rayllm_ctl.controller.write_status import now, write_status
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health import diagnose_job
from rayllm_ctl.health.storage.uses import CLAIM
from rayllm_ctl.kinds.rayjob import KIND as RAY_JOB
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.kube.model_downloads import is_download
from rayllm_ctl.model.kube.owned import is_owned_by, owned
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome, JobState
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.workflows.batch.prerequisites import for_kuberay, require_job_storage, require_pool
from rayllm_ctl.workflows.plan.figures import plan_figures
from rayllm_ctl.workflows.render.batch import BatchRendering, batch_rendering
from rayllm_ctl.workflows.render.types import RenderOptions
from rayllm_ctl.workflows.rollout.model_storage.apply import outdated_jobs
from rayllm_ctl.workflows.rollout.model_storage.claims import read_facts, with_live_claims

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

RUNNING_SECONDS = 20.0
"""Between two looks at a job that has not ended: what the driver says is not watched."""

DELETING_SECONDS = 2.0

BatchPhase = Literal[
    "invalid", "planned", "foreign", "busy", "replacing", "downloading", "starting", "running", "ended"
]


@dataclass(frozen=True)
class BatchFacts:
    """All that a step rests on.

    begun: the digest of the spec that was started last; ended: whether that has ended. job: the RayJob. stored: what
    belongs to it. health: of the RayJob.
    """

    declared: Declared
    begun: str
    ended: bool
    job: Object | None
    stored: Mapping[ChildKey, Object]
    health: BatchHealth | None


def decide_batch(facts: BatchFacts) -> BatchPhase:
    """Where a job stands, and so what is done next; one that starts may have to download its model first. Pure."""
    declared, job = facts.declared, facts.job
    if job is not None and not is_owned_by(job, declared.item):
        return "foreign"
    if declared.problem is not None:
        return "invalid"
    if facts.begun == declared.digest:
        if facts.ended:
            return "ended"
        if job is not None:
            return "running"
        return "planned" if declared.plan_only else "starting"
    if declared.plan_only:
        return "planned"
    if job is None:
        return "starting"
    if "deletionTimestamp" in job["metadata"]:
        return "replacing"
    return "replacing" if facts.ended or declared.accepted else "busy"


_BEGUN: tuple[BatchPhase, ...] = ("downloading", "starting", "running")
"""Phases of a job of the present spec that has not ended."""


class BatchReconciler:
    """Reconciles BatchJobs; see ServiceReconciler."""

    def __init__(self, cluster: Cluster, caches: ObjectCaches, facts: FactSources) -> None:
        self._cluster = cluster
        self._caches = caches
        self._options = RenderOptions(facts=facts, kuberay=VERSIONS[-1])
        self._deleted: set[str] = set()

    def reconcile(self, key: Key) -> float | None:
        """See Reconciler."""
        item = self._caches.get(key)
        if item is None or "deletionTimestamp" in item["metadata"]:
            return None
        facts = self._observed(key, declare(item))
        phase = decide_batch(facts)
        status: Mapping[str, Any] = item.get("status") or {}
        problem = facts.declared.problem
        plan = status.get("plan")
        again: float | None = RUNNING_SECONDS
        if phase in ("starting", "planned"):
            try:
                made = self._rendered(facts.declared)
            except UserError as error:
                if not rejection(error):
                    raise
                phase, problem = "invalid", SpecProblem("InvalidSpec", with_hints(error))
            else:
                plan = plan_figures(made.plan.plan)
                if phase == "starting":
                    phase, facts, problem = self._start(key, facts, made, plan)
        elif phase == "replacing" and facts.job is not None and "deletionTimestamp" not in facts.job["metadata"]:
            metadata = facts.job["metadata"]
            self._cluster.delete(RAY_JOB, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        if problem is not None and problem.passing:
            again = LATER_SECONDS
        elif phase in ("ended", "invalid", "planned", "foreign"):
            again = None
        elif phase == "replacing":
            again = DELETING_SECONDS
        write_status(self._cluster, facts.declared, make_batch_status(facts, phase, problem, plan, now()))
        return again

    def _observed(self, key: Key, declared: Declared) -> BatchFacts:
        stored = without(self._caches.parts(key), self._deleted)
        status = declared.item.get("status") or {}
        job = stored.get((RAY_JOB, key.name))
        health = None
        if job is not None and is_owned_by(job, declared.item):
            health = self._health(key)
        ended = bool(status.get("ended")) or (health is not None and health.outcome is not None)
        return BatchFacts(declared, str(status.get("digest") or ""), ended, job, stored, health)

    def _health(self, key: Key) -> BatchHealth:
        snapshot = JobCollector(self._cluster, key.name, key.namespace).collect()
        return diagnose_job(snapshot, key.name, key.namespace)

    def _rendered(self, declared: Declared) -> BatchRendering:
        assert declared.batch is not None
        batch = replace(declared.batch, namespace=declared.namespace)
        return batch_rendering(batch, self._options)

    def _fitted(self, facts: BatchFacts, made: BatchRendering) -> BatchRendering:
        """`made` as the cluster takes it. Raises UserError if that lacks what the job needs; see rejection."""
        declared = facts.declared
        assert declared.batch is not None
        made = result_of(for_kuberay(declared.batch, made, self._options, kuberay_version(self._cluster)))
        if facts.begun != declared.digest:
            require_pool(self._cluster, declared.batch, declared.namespace)
            result_of(require_job_storage(self._cluster, made, made.manifests, declared.namespace))
        return made

    def _start(
        self, key: Key, facts: BatchFacts, made: BatchRendering, plan: Mapping[str, Any]
    ) -> tuple[BatchPhase, BatchFacts, SpecProblem | None]:
        """Apply what is missing: what downloads the model, and the rest once that is complete."""
        phase: BatchPhase = "starting"
        try:
            made = self._fitted(facts, made)
        except UserError as error:
            reason = rejection(error)
            if not reason:
                raise
            return "invalid", facts, SpecProblem(reason, with_hints(error), passing=True)
        wanted, first = tuple(map(child_key, made.manifests)), first_stage(made.manifests)
        self._delete(outdated_jobs(self._cluster, downloads_of(first, facts.stored)))
        facts = replace(facts, stored=without(facts.stored, self._deleted))
        waited = incomplete_jobs(first, facts.stored)
        if waited:
            phase, wanted = "downloading", first
            if any(one in facts.stored for one in waited):
                facts = replace(facts, health=self._health(key))
        self._delete(_earlier_downloads(facts, first))
        status: Mapping[str, Any] = facts.declared.item.get("status") or {}
        write_status(self._cluster, facts.declared, {**status, "digest": facts.declared.digest, "ended": False})
        try:
            self._apply(facts, made, wanted)
        except UserError as error:
            failed = SpecProblem(rejection(error) or "ApplyFailed", with_hints(error))
            write_status(self._cluster, facts.declared, make_batch_status(facts, phase, failed, plan, now()))
            raise
        return phase, facts, None

    def _delete(self, jobs: Iterable[Object]) -> None:
        for job in jobs:
            metadata = job["metadata"]
            with suppress(NotFoundError):
                self._cluster.delete(
                    "Job", metadata["name"], metadata["namespace"], uid=metadata["uid"], background=True
                )
            self._deleted.add(str(metadata["uid"]))

    def _apply(self, facts: BatchFacts, made: BatchRendering, wanted: Sequence[ChildKey]) -> None:
        """Apply what is missing of these children. What the job reads goes first, see apply."""
        # Claims are not watched. They are created with the rest, and keep the size to which they have grown.
        missing = to_apply([one for one in wanted if one[0] != CLAIM], facts.stored, {})
        if not missing:
            return
        claims = [one for one in wanted if one[0] == CLAIM]
        chosen = [item for item in made.manifests if child_key(item) in (*claims, *missing)]
        if claims:
            chosen = [*with_live_claims(chosen, read_facts(self._cluster, chosen, facts.declared.namespace))]
        children = [owned(item, facts.declared.item) for item in chosen]
        for _ in apply(self._cluster, children, field_manager=CONTROLLER, force_conflicts=facts.declared.accepted):
            pass


def _earlier_downloads(facts: BatchFacts, first: Sequence[ChildKey]) -> list[Object]:
    """The Jobs that download what an earlier spec named."""
    return [
        item for child, item in facts.stored.items()
        if child not in first and is_download(item) and is_owned_by(item, facts.declared.item)
    ]  # fmt: skip


def make_batch_status(
    facts: BatchFacts, phase: BatchPhase, problem: SpecProblem | None, plan: Mapping[str, Any] | None, now: str
) -> dict[str, Any]:
    """The status to be stored. now: RFC 3339. Pure."""
    declared, health = facts.declared, facts.health
    old: Mapping[str, Any] = declared.item.get("status") or {}
    status: dict[str, Any] = {
        "observedGeneration": declared.generation,
        "conditions": as_conditions(
            _conditions(facts, phase, problem), old.get("conditions") or (), declared.generation, now
        ),
        "digest": declared.digest if phase in (*_BEGUN, "ended") else facts.begun,
        "ended": facts.ended and phase not in _BEGUN,
        "state": health.state.value if health is not None else str(old.get("state", "Pending")),
    }
    if plan is not None:
        status["plan"] = dict(plan)
    if health is not None and health.progress is not None:
        done, total = health.progress.done, health.progress.rows
        status["rows"] = {"done": done, "total": total, "failed": health.progress.errors}
        status["rowsText"] = f"{done}/{total}"
    if health is not None and health.output:
        status["output"] = health.output
    if declared.batch is not None:
        status["models"] = [declared.batch.model.id]
    for kept in ("rows", "rowsText", "output", "models"):  # of a job that was cleaned up, or of the spec before
        if kept in old:
            status.setdefault(kept, old[kept])
    return {key: value for key, value in status.items() if value not in (None, "")}


def _conditions(facts: BatchFacts, phase: BatchPhase, problem: SpecProblem | None) -> list[StatusCondition]:
    name, namespace = facts.declared.name, facts.declared.namespace
    if phase == "foreign":
        problem = SpecProblem("NotAdopted", f"rayjob/{name} in namespace {namespace} was not made for this BatchJob")
    outcome = facts.health.outcome if facts.health is not None else None
    old = {str(one["type"]): one for one in (facts.declared.item.get("status") or {}).get("conditions") or ()}
    if phase == "ended" and outcome is None:  # its RayJob has been cleaned up
        kept = [old[one] for one in ("Complete", "Failed") if one in old]
        ends = [StatusCondition(one["type"], one["status"], one["reason"], one["message"]) for one in kept]
    else:
        message = facts.health.message if facts.health is not None else ""
        ends = [
            make_condition(
                "Complete",
                outcome is JobOutcome.ANSWERED,
                outcome.value if outcome else "NotEnded",
                message,
            ),
            make_condition(
                "Failed",
                outcome not in (None, JobOutcome.ANSWERED),
                outcome.value if outcome else "NotEnded",
                message,
            ),
        ]
    waits = "the job of an earlier spec is still running; this spec starts when it has ended"
    applied = {
        "busy": make_condition("Applied", False, "Busy", waits),
        "replacing": make_condition("Applied", False, "Replacing", "the RayJob of the earlier spec is being deleted"),
        "planned": make_condition("Applied", False, "PlanOnly", "spec.planOnly is true"),
        "downloading": make_condition(
            "Applied", False, "Downloading", "the RayJob is applied once its model is downloaded"
        ),
    }.get(phase, make_condition("Applied", phase in ("starting", "running", "ended"), "Applied"))
    if problem is not None:
        applied = make_condition("Applied", False, problem.reason, problem.message)
    moving = phase in ("busy", "replacing", *_BEGUN)
    causes = facts.health.causes if facts.health else ()
    terminal = next((one for one in causes if one.terminal), None)
    stalled = problem
    if stalled is None and terminal is not None and phase in ("downloading", "running"):
        stalled = SpecProblem(terminal.code, terminal.message)
    failed = next((one for one in ends if one.type == "Failed" and one.status == "True"), None)
    if stalled is None and failed is not None:  # kstatus knows no other way to say that a job has failed
        stalled = SpecProblem(failed.reason, failed.message)
    return [
        make_condition("Planned", problem is None, "Planned" if problem is None else problem.reason),
        applied,
        *ends,
        _reconciling(facts.health, phase, moving=moving and stalled is None),
        make_condition("Stalled", True, stalled.reason, stalled.message)
        if stalled is not None
        else make_condition("Stalled", False, "AsExpected"),
    ]


def _reconciling(health: BatchHealth | None, phase: BatchPhase, *, moving: bool) -> StatusCondition:
    """Whether there is more to come; a job that waits counts, as kstatus has no word for it."""
    if not moving:
        return make_condition("Reconciling", False, "AsExpected")
    if health is not None and health.state is JobState.STUCK and health.causes:
        return make_condition("Reconciling", True, health.causes[0].code, health.causes[0].message)
    if phase == "downloading":
        return make_condition("Reconciling", True, "Downloading", health.message if health is not None else "")
    return make_condition("Reconciling", True, "Running")

"""One step for one LLMService: read, decide, write. Everything it writes, it can find again after a restart."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ApiError, NotFoundError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.bounds import bounds_patch, propagate_bounds
from rayllm_ctl.cluster.apply.revisions import add_revision, annotate_revision
from rayllm_ctl.cluster.apply.revisions import revisions as list_revisions
from rayllm_ctl.cluster.apply.serve_service import propagate_service
from rayllm_ctl.controller.caches import ObjectCaches
from rayllm_ctl.controller.committed import REVISION_KIND, Committed, read_committed
from rayllm_ctl.controller.decide import (
    STARTING_SECONDS,
    Decision,
    Facts,
    Proposal,
    last_change_of_others,
    next_step,
)
from rayllm_ctl.controller.declared import Declared, SpecProblem, declare, with_hints
from rayllm_ctl.controller.observe import Observer, SeenDownload, SeenHealth
from rayllm_ctl.controller.propose import propose, with_another_replica
from rayllm_ctl.controller.stages import downloads_of, first_stage, incomplete_jobs, without
from rayllm_ctl.controller.status import make_status
from rayllm_ctl.controller.types import ChildKey, Key, child_key
from rayllm_ctl.controller.write_status import now, write_status
from rayllm_ctl.errors import ConflictError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.storage.uses import CLAIM
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.kube.kuberay import RAY_CLUSTER
from rayllm_ctl.model.kube.labels import CONTROLLER, DONE, RAISED, RESTARTER, WAY
from rayllm_ctl.model.kube.owned import is_owned_by, owned, owner_reference
from rayllm_ctl.model.kube.revisions import NOT_WAITED, Revision
from rayllm_ctl.model.observed.health import Health, Object, State
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.llmservice.spec import revision_annotations
from rayllm_ctl.workflows.rollout.manifests import KEPT, suspend_or_resume
from rayllm_ctl.workflows.rollout.model_storage.apply import outdated_jobs
from rayllm_ctl.workflows.rollout.model_storage.claims import read_facts, with_live_claims
from rayllm_ctl.workflows.rollout.restart_annotation import restart_of
from rayllm_ctl.workflows.rollout.secrets import make_password
from rayllm_ctl.workflows.rollout.shipped_code import restored

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

PROPOSAL_SECONDS = 60.0
"""How long a proposal that is not applied stands: what the cluster can hold may change without the spec."""


_KEPT = (*KEPT, REVISION_KIND)


@dataclass(frozen=True)
class _Proposed:
    """A proposal, what it was made from, and when."""

    proposal: Proposal
    rendering: Rendering | None
    basis: tuple[str, str, bool, Way]
    made_at: float


class ServiceReconciler:
    """Reconciles LLMServices. One instance per process; a key is reconciled by one thread at a time.

    facts: where those of plans come from.
    """

    def __init__(self, cluster: Cluster, caches: ObjectCaches, facts: FactSources) -> None:
        self._cluster = cluster
        self._caches = caches
        self._facts = facts
        self._observer = Observer(cluster)
        self._proposals: dict[Key, _Proposed] = {}
        self._seen: dict[str, str] = {}
        self._deleted: set[str] = set()

    def reconcile(self, key: Key) -> float | None:
        """See Reconciler."""
        item = self._caches.get(key)
        if item is None or "deletionTimestamp" in item["metadata"]:
            self._observer.forget(key)
            self._proposals.pop(key, None)
            return None
        declared = declare(item)
        stored = self._caches.parts(key)
        facts = self._observed(key, declared, stored)
        decision = next_step(facts, _KEPT)
        failure: SpecProblem | None = None
        waits = False
        try:
            self._carry_out(key, facts, decision)
            waits = self._propagate(facts)
        except ConflictError as error:
            failure = SpecProblem("Conflict", with_hints(error))
        except UserError as error:
            write_status(
                self._cluster,
                declared,
                make_status(facts, decision, now(), SpecProblem("ApplyFailed", with_hints(error))),
            )
            raise
        write_status(self._cluster, declared, make_status(facts, decision, now(), failure))
        if failure is not None:
            return PROPOSAL_SECONDS
        return STARTING_SECONDS if waits else decision.again

    def _observed(self, key: Key, declared: Declared, stored: Mapping[ChildKey, Object]) -> Facts:
        stored = without(stored, self._deleted)
        committed, before = read_committed(stored)
        live = next((item for (kind, name), item in stored.items() if kind in WORKLOADS and name == key.name), None)
        foreign = _foreign(declared, live)
        proposal = None
        outdated: tuple[Object, ...] = ()
        if declared.service is not None and not foreign and _is_new(declared, committed):
            proposal = self._proposed(key, declared, live, stored)
            outdated = outdated_jobs(self._cluster, downloads_of(first_stage(proposal.manifests), stored))
        elif committed is not None and committed.digest == declared.digest:
            self._proposals.pop(key, None)
        seen = None
        if live is not None and not foreign:
            gap = self._caches.gap(key)
            if gap:
                seen = SeenHealth(_unknown(declared, gap), None)
            else:
                seen = self._observer.observe(key, live, stored, was_ready=_was_ready(declared))
        health, look_again = (seen.health, seen.again) if seen is not None else (None, None)
        download = self._download(key, committed, stored) if proposal is None and not foreign else None
        if download is not None:
            look_again = min(download.again, look_again or download.again)
        note = ((live or {"metadata": {}})["metadata"].get("annotations") or {}).get(RAISED, "")
        raised = int(note) if note.isdigit() else 0
        return Facts(
            declared, committed, proposal, live, stored, health, look_again, foreign, raised, self._seen,
            download=download.health if download is not None else None,
            before=before, outdated=outdated,
        )  # fmt: skip

    def _download(
        self, key: Key, committed: Committed | None, stored: Mapping[ChildKey, Object]
    ) -> SeenDownload | None:
        """Of the models that the rest of a revision waits for."""
        waited = () if committed is None or committed.done else incomplete_jobs(committed.first, stored)
        jobs = [name for kind, name in waited if (kind, name) in stored]
        return self._observer.observe_download(key, jobs, stored) if jobs else None

    def _proposed(
        self, key: Key, declared: Declared, live: Object | None, stored: Mapping[ChildKey, Object]
    ) -> Proposal:
        generation = str(live["metadata"].get("generation")) if live else ""
        basis = (declared.digest, generation, declared.accepted, declared.rollout)
        known = self._proposals.get(key)
        if known is not None and known.basis == basis and time.monotonic() - known.made_at < PROPOSAL_SECONDS:
            return known.proposal
        mine = [item for item in stored.values() if is_owned_by(item, declared.item)]
        revisions = list_revisions(self._cluster, key.name, key.namespace)
        proposal, made = propose(self._cluster, declared, live, mine, revisions, self._facts)
        self._proposals[key] = _Proposed(proposal, made, basis, time.monotonic())
        return proposal

    def _carry_out(self, key: Key, facts: Facts, decision: Decision) -> None:
        declared = facts.declared
        number = facts.committed.number if facts.committed is not None else 0
        revision: Revision | None = None
        for job in decision.replace:
            self._delete(job)
            self._deleted.add(str(job["metadata"]["uid"]))
        if decision.commit:
            revision = self._commit(key, facts)
            number = revision.number
        if decision.lower:
            annotate_revision(self._cluster, f"{declared.name}-{number}", declared.namespace, {WAY: ""})
        if decision.apply:
            manifests = self._manifests(key, facts, revision)
            self._apply(facts, decision.apply, manifests, decision, number)
        if decision.repair and facts.before is not None:
            running = self._restored(key, facts.before.number)
            self._apply(facts, decision.repair, running, Decision(decision.phase), facts.before.number)
        for item in decision.delete:
            self._delete(item)
        if decision.finish:
            annotate_revision(self._cluster, f"{declared.name}-{number}", declared.namespace, {DONE: "true"})

    def _commit(self, key: Key, facts: Facts) -> Revision:
        """Write the proposal as the next revision."""
        declared, proposal = facts.declared, facts.proposal
        assert proposal is not None
        known = list_revisions(self._cluster, declared.name, declared.namespace)
        if known and known[-1].number > (facts.committed.number if facts.committed else 0):
            # The caches are behind: what was decided on is not the newest revision.
            raise ConflictError(f"{key} has a newer revision {known[-1].number}")
        made = self._proposals[key].rendering
        startup = made.startup if made is not None else None
        try:
            return add_revision(
                self._cluster,
                declared.name,
                declared.namespace,
                proposal.manifests,
                change=f"generation {declared.generation}",
                outcome=NOT_WAITED,
                start_seconds=float(startup.deploy_wait_seconds) if startup else None,
                known=known,
                annotations=revision_annotations(
                    proposal.digest,
                    proposal.manifests,
                    proposal.plan,
                    way=proposal.way,
                    done=False,
                    first=first_stage(proposal.manifests),
                ),
                owner=owner_reference(declared.item),
                spec=declared.item["spec"],
                tries=1,
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            # Another controller, or the command line, has written it since: it may be for the same spec.
            raise ConflictError(f"{key} has a newer revision") from error

    def _manifests(self, key: Key, facts: Facts, written: Revision | None) -> tuple[Mapping[str, Any], ...]:
        """The manifests of the revision that is wanted, with the code that the pods mount."""
        if written is not None and facts.proposal is not None:
            made = self._proposals[key].rendering
            if made is not None and made.plan is not None and made.plan.deployment is not None:
                make_password(self._cluster, made.plan.deployment, facts.declared.namespace)
            return facts.proposal.manifests
        return self._restored(key)

    def _restored(self, key: Key, number: int | None = None) -> tuple[Mapping[str, Any], ...]:
        """The manifests of a revision, by default of the newest one, with the code that the pods mount."""
        known = list_revisions(self._cluster, key.name, key.namespace)
        found = next((one for one in known if one.number == number), known[-1])
        return restored(self._cluster, found.manifests, key.namespace)[0]

    def _apply(
        self, facts: Facts, children: Sequence[ChildKey], manifests: Sequence[Mapping[str, Any]], decision: Decision,
        number: int,
    ) -> None:  # fmt: skip
        """Apply these children. manifests: of the revision `number`."""
        declared = facts.declared
        wanted: Sequence[Mapping[str, Any]] = [item for item in manifests if child_key(item) in children]
        if any(kind == CLAIM for kind, _ in children):
            # It may have grown since the revision was written: a user's answer to a download that lacks space.
            wanted = with_live_claims(wanted, read_facts(self._cluster, wanted, declared.namespace))
        if decision.raised and facts.workload is not None:
            another = with_another_replica(self._cluster, facts.workload, manifests)
            raised = _with_note(another, RAISED, str(number))
            wanted = [raised if child_key(item) == child_key(raised) else item for item in wanted]
        items = [owned(item, declared.item) for item in wanted]
        items = suspend_or_resume(items, facts.workload, suspended=declared.suspended)
        _require_present(self._cluster, declared)
        if decision.restart and facts.workload is not None:
            # A field of its own, which the next apply leaves as it is.
            part = restart_of(facts.workload, f"{declared.name}-{number}")
            _exhaust(apply(self._cluster, [part], field_manager=RESTARTER))
        for event, item in apply(self._cluster, items, field_manager=CONTROLLER, force_conflicts=declared.accepted):
            self._seen[str(item["metadata"]["uid"])] = last_change_of_others(item)
            if event.kind in WORKLOADS and event.action == "configured":
                _exhaust(propagate_service(self._cluster, WORKLOADS[event.kind], item))

    def _propagate(self, facts: Facts) -> bool:
        """Carry changed bounds to the running RayCluster, as KubeRay does not; whether a lower one still waits."""
        live = facts.workload
        if live is None or facts.committed is None or WORKLOADS[str(live["kind"])].is_cluster:
            return False
        if (live.get("status") or {}).get("observedGeneration") != live["metadata"].get("generation"):
            return False  # whether the RayCluster stays is not known yet
        names = WORKLOADS[str(live["kind"])].clusters_of(live)[-1:]
        running = [item for (kind, name), item in facts.stored.items() if kind == RAY_CLUSTER and name in names]
        if not any(bounds_patch(item, live) for item in running):
            return False
        return bool(propagate_bounds(self._cluster, names, live)[1])

    def _delete(self, item: Object) -> None:
        metadata = item["metadata"]
        with suppress(NotFoundError):
            self._cluster.delete(
                str(item["kind"]), metadata["name"], metadata["namespace"], uid=metadata["uid"], background=True
            )


def _require_present(cluster: Cluster, declared: Declared) -> None:
    """Raise ConflictError unless the LLMService is still there: Kubernetes deletes what names an owner that is gone."""
    try:
        item = cluster.get(str(declared.item["kind"]), declared.name, declared.namespace)
    except NotFoundError:
        item = None
    if item is None or item["metadata"]["uid"] != declared.uid or "deletionTimestamp" in item["metadata"]:
        raise ConflictError(f"llmservice/{declared.name} is being deleted: nothing was applied for it")


def _exhaust(steps: Iterable[object]) -> None:
    for _ in steps:
        pass


def _is_new(declared: Declared, committed: Committed | None) -> bool:
    return committed is None or committed.digest != declared.digest


def _unknown(declared: Declared, why: str) -> Health:
    """How a service is that nobody can see now: its numbers are the last ones that were seen."""
    status: Mapping[str, Any] = declared.item.get("status") or {}
    running, wanted = int(status.get("readyReplicas") or 0), int(status.get("replicas") or 0)
    return Health(State.UNKNOWN, why, replicas_running=running, replicas_wanted=wanted)


def _was_ready(declared: Declared) -> bool:
    """Whether the stored status says that this generation serves."""
    return any(
        (one.get("type"), one.get("status"), one.get("observedGeneration")) == ("Ready", "True", declared.generation)
        for one in (declared.item.get("status") or {}).get("conditions") or ()
    )


def _foreign(declared: Declared, live: Object | None) -> str:
    """Why an object of the service's name is left alone; empty if it is not."""
    if live is None or is_owned_by(live, declared.item):
        return ""
    what = f"{str(live['kind']).lower()}/{live['metadata']['name']}"
    return (
        f"{what} was not made for this LLMService; "
        f"→ rayllm-ctl adopt {declared.name} -n {declared.namespace}    # take it over without a restart"
    )


def _with_note(manifest: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: value}}}

"""What is done about one LLMService: from what it asks for and what there is to what is written. Pure.

A change is committed first: the manifests become a revision, together with the digest of the spec that they were
rendered from. Then they are applied. So a controller that ends between two requests finds what it had decided, and one
of another version renders nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from rayllm_ctl.controller.committed import ApplyWay, Committed
from rayllm_ctl.controller.declared import Declared, SpecProblem
from rayllm_ctl.controller.stages import first_stage, incomplete_jobs, without
from rayllm_ctl.controller.types import ChildKey, child_key
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.storage.uses import CLAIM
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.kube.owned import is_owned_by
from rayllm_ctl.model.observed.health import Health, Object, State

LATER_SECONDS = 60.0
"""After which a change that waits for consent, capacity or a fact is looked at again."""

STARTING_SECONDS = 2.0
"""Until the look at what has just been applied."""


@dataclass(frozen=True)
class Proposal:
    """A spec that was rendered. manifests: empty if `problem` says why there are none. plan: as the status shows it.

    risks: what applying it costs, which the user has to accept. notes: what it does to running pods.
    """

    digest: str
    manifests: tuple[Mapping[str, Any], ...]
    plan: Mapping[str, Any] | None
    problem: SpecProblem | None = None
    risks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    way: ApplyWay = ""


@dataclass(frozen=True)
class Facts:
    """All that a decision rests on.

    committed: None: nothing was applied yet. before: while that one waits for its models, the one before it; None:
    none. proposal: None: the spec is that of `committed`. workload: the RayService or RayCluster. stored: what there is
    under the names of the children. health: None while there is no workload. look_again: seconds until it is looked at
    again; None: when something changes. foreign: why an object of the service's name is left alone; empty if none is.
    raised: the workload has one more replica of each model now, for a surge of the revision of this number. seen: see
    to_apply. download: of the models of a revision that waits for them; None: it waits for none, or its Jobs are about
    to be applied. outdated: Jobs of `proposal` that are complete, but whose claim has been replaced since.
    """

    declared: Declared
    committed: Committed | None
    proposal: Proposal | None
    workload: Object | None
    stored: Mapping[ChildKey, Object]
    health: Health | None
    look_again: float | None = None
    foreign: str = ""
    raised: int = 0
    seen: Mapping[str, str] = field(default_factory=dict)
    download: Health | None = None
    before: Committed | None = None
    outdated: tuple[Object, ...] = ()


Phase = Literal["invalid", "planned", "foreign", "consent", "downloading", "applying", "surging", "applied"]


@dataclass(frozen=True)
class Decision:
    """phase: where the service stands. replace: Jobs to delete before anything else: a controller that ends after the
    commit would take their models for complete. commit: write `proposal` as the next revision. apply: children to
    apply, of the revision then. repair: children to apply of the revision that runs while the newest one waits for its
    models. raised: the workload is applied with one more replica of each model. restart: a second RayCluster is started
    first. lower: the surge is over, which is written first. delete: objects. finish: the revision is done. again:
    seconds until the next look; None: at the next change.
    """

    phase: Phase
    replace: tuple[Object, ...] = ()
    commit: bool = False
    apply: tuple[ChildKey, ...] = ()
    repair: tuple[ChildKey, ...] = ()
    raised: bool = False
    restart: bool = False
    lower: bool = False
    delete: tuple[Object, ...] = ()
    finish: bool = False
    again: float | None = None


def next_step(facts: Facts, kept: Sequence[str]) -> Decision:
    """The next step. kept: kinds of which a child that is no longer rendered stays."""
    declared, proposal, committed = facts.declared, facts.proposal, facts.committed
    if facts.foreign:
        return Decision("foreign", again=LATER_SECONDS)
    if declared.problem is not None or (proposal is not None and proposal.problem is not None):
        return _kept_as_it_is(facts, "invalid")
    if declared.plan_only:
        return _kept_as_it_is(facts, "planned")
    if proposal is not None and (committed is None or committed.digest != proposal.digest):
        if proposal.risks and not declared.accepted:
            return _kept_as_it_is(facts, "consent")
        first = first_stage(proposal.manifests)
        kept_jobs = without(facts.stored, [str(job["metadata"]["uid"]) for job in facts.outdated])
        if incomplete_jobs(first, kept_jobs):
            return Decision("downloading", replace=facts.outdated, commit=True, apply=first, again=STARTING_SECONDS)
        children = tuple(map(child_key, proposal.manifests))
        return _applied(facts, children, proposal.way, 0, done=False, commit=True, kept=kept)
    if committed is None:
        return Decision("invalid", again=LATER_SECONDS)
    if not committed.done and incomplete_jobs(committed.first, facts.stored):
        missing = _missing_first(facts, committed)
        again = STARTING_SECONDS if missing else facts.look_again
        return Decision("downloading", apply=missing, repair=_repair(facts, committed), again=again)
    return _applied(
        facts, committed.children, committed.way, committed.number, done=committed.done, commit=False, kept=kept
    )


def _missing_first(facts: Facts, committed: Committed) -> tuple[ChildKey, ...]:
    """What is to be applied again of what downloads the models."""
    missing = _outdated(facts, committed.first)
    # Claims are not watched.
    return (*(key for key in committed.first if key[0] == CLAIM), *missing) if missing else ()


def _repair(facts: Facts, committed: Committed) -> tuple[ChildKey, ...]:
    """What is to be applied again of the revision that runs, but for what the newest one has applied already."""
    if facts.before is None or not facts.before.digest:
        return ()
    return _outdated(facts, [key for key in facts.before.children if key not in committed.first], runs=True)


def _kept_as_it_is(facts: Facts, phase: Phase) -> Decision:
    """Nothing new is applied; what was committed before is kept as it was."""
    problem = facts.proposal.problem if facts.proposal is not None else None
    later = phase == "consent" or (problem is not None and problem.passing)
    again = LATER_SECONDS if later else facts.look_again
    committed = facts.committed
    if committed is None or not committed.digest:
        return Decision(phase, again=again)
    if committed.first and not committed.done:
        return Decision(phase, apply=_missing_first(facts, committed), repair=_repair(facts, committed), again=again)
    return Decision(phase, apply=_outdated(facts, committed.children), again=again)


def _applied(
    facts: Facts, children: tuple[ChildKey, ...], way: ApplyWay, number: int, *, done: bool, commit: bool,
    kept: Sequence[str],
) -> Decision:  # fmt: skip
    """The step of a revision whose manifests are wanted. number: of the revision; 0: it is about to be written."""
    if way == "surge" and not done and facts.workload is not None:
        if commit or facts.raised != number:
            return Decision("surging", commit=commit, apply=children, raised=True, again=STARTING_SECONDS)
        if facts.health is None or facts.health.state is not State.READY:
            return Decision("surging", again=STARTING_SECONDS)
        return Decision("applying", apply=children, lower=True, finish=True, again=STARTING_SECONDS)
    restart = way == "new-cluster" and not done and facts.workload is not None
    if commit:
        return Decision("applying", commit=True, apply=children, restart=restart, finish=True, again=STARTING_SECONDS)
    mine = {key: item for key, item in facts.stored.items() if is_owned_by(item, facts.declared.item)}
    missing = _outdated(facts, children) if done else children
    gone = tuple(surplus(children, mine, kept))
    phase: Phase = "applying" if missing else "applied"
    return Decision(phase, apply=missing, restart=restart, delete=gone, finish=not done, again=facts.look_again)


def _outdated(facts: Facts, children: Sequence[ChildKey], *, runs: bool = False) -> tuple[ChildKey, ...]:
    """The children to apply again; also the one to be suspended or resumed, which is not part of its revision.

    runs: they are those of the revision that runs, and the status tells of the newest one.
    """
    # A claim is created once, with its revision: an empty one in place of one that is gone helps nobody.
    found = to_apply([key for key in children if key[0] != CLAIM], facts.stored, facts.seen)
    if facts.workload is None or not _suspends_otherwise(facts.declared, facts.workload, runs):
        return found
    return tuple(key for key in children if key in found or key == child_key(facts.workload))


def _suspends_otherwise(declared: Declared, workload: Object, runs: bool) -> bool:
    """Whether a service is to be suspended, or resumed. What another client has suspended is resumed once at most."""
    if is_suspended(workload) is declared.suspended:
        return False
    status = declared.item.get("status") or {}
    applied = runs or any(
        one.get("type") == "Applied" and one.get("status") == "True" for one in status.get("conditions") or ()
    )
    return declared.suspended or not applied or status.get("observedGeneration") != declared.generation


def to_apply(
    wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object], seen: Mapping[str, str]
) -> tuple[ChildKey, ...]:
    """The children that are missing, or that another client has changed since the controller applied them.

    Controllers that write the status of an object do not count, nor its scale. seen: by uid, the last change of another
    client over which the child has been applied: that client may have written what nobody else wants.
    """
    return tuple(key for key in wanted if key not in stored or _changed_since(stored[key], seen))


def last_change_of_others(item: Object) -> str:
    """When another client than the controller wrote the object last, but for its status; empty if none did."""
    return max((str(one.get("time", "")) for one in _records(item) if one.get("manager") != CONTROLLER), default="")


def surplus(wanted: Iterable[ChildKey], stored: Mapping[ChildKey, Object], kept: Sequence[str]) -> list[Object]:
    """The children that are no longer wanted. kept: kinds that stay until their owner is gone."""
    names = frozenset(wanted)
    return [item for key, item in sorted(stored.items()) if key not in names and key[0] not in kept]


def _changed_since(item: Object, seen: Mapping[str, str]) -> bool:
    applied = [str(one.get("time", "")) for one in _records(item) if one.get("manager") == CONTROLLER]
    if not applied:
        return True
    return last_change_of_others(item) > max(*applied, seen.get(str(item["metadata"]["uid"]), ""))


def _records(item: Object) -> list[Mapping[str, Any]]:
    return [one for one in item["metadata"].get("managedFields") or () if not one.get("subresource")]

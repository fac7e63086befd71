"""From a spec that changed to what is to be applied, and what that does to the running service."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rayllm_ctl.cluster.api.errors import ApiError
from rayllm_ctl.cluster.api.permissions import Permissions
from rayllm_ctl.controller.decide import Proposal
from rayllm_ctl.controller.declared import Declared, SpecProblem, with_hints
from rayllm_ctl.controller.rollout import ImpossibleRolloutError, choose_rollout
from rayllm_ctl.errors import ClusterError, ConflictError, FieldConflictError, RiskyPlanError, UserError
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.workflows.plan.figures import VERDICT_WORDS, plan_figures
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.service import rendering_of
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions
from rayllm_ctl.workflows.rollout.model_storage.claims import read_facts, with_live_claims
from rayllm_ctl.workflows.rollout.prerequisites import fit
from rayllm_ctl.workflows.rollout.shipped_code import restored
from rayllm_ctl.workflows.rollout.upgrade.surge import raised
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_Result = TypeVar("_Result")


def propose(
    cluster: Cluster, declared: Declared, live: Object | None, mine: Sequence[Object], known: Sequence[Revision],
    facts: FactSources,
) -> tuple[Proposal, Rendering | None]:  # fmt: skip
    """What the spec of `declared` leads to. live: the object that runs the service; mine: the children that there are.
    known: the revisions of the service: a spec that there was before is not rendered again.

    Raises UserError if the cluster does not answer; what is wrong with the spec is the proposal's `problem`.
    """
    assert declared.service is not None
    service = replace(declared.service, namespace=declared.namespace)
    options = RenderOptions(facts=facts, kuberay=VERSIONS[-1])
    try:
        plan = make_plan(service, facts)
    except UserError as error:  # the hub may answer later
        problem = SpecProblem("InvalidSpec", with_hints(error), passing=not facts.offline)
        return _failed(declared, problem, None), None
    figures = plan_figures(plan)
    earlier = next((one for one in reversed(known) if one.digest == declared.digest), None)
    try:
        made = rendering_of(service, plan, options) if earlier is None else _again(cluster, declared, plan, earlier)
    except UserError as error:
        reason = "Risky" if isinstance(error, RiskyPlanError) else "InvalidSpec"
        if plan.verdict == "does-not-fit":
            reason = VERDICT_WORDS[plan.verdict]
        return _failed(declared, SpecProblem(reason, with_hints(error)), figures), None
    if declared.plan_only:
        return Proposal(declared.digest, (), figures), made
    try:
        ref = _service_ref(cluster, made, declared, live)
        made = _fitted(ref, made) if earlier is None else _with_live_claims(ref, made)
        return _compared(ref, declared, made, mine, figures), made
    except UserError as error:
        reason = rejection(error)
        if not reason:
            raise
        # What the spec needs may come without a change of it.
        return _failed(declared, SpecProblem(reason, with_hints(error), passing=True), figures), None


def _compared(
    ref: ServiceRef, declared: Declared, made: Rendering, mine: Sequence[Object], figures: Mapping[str, Any]
) -> Proposal:
    """The proposal to apply what was rendered, with its effect on the running service, if there is one."""
    manifests = tuple(made.manifests)
    if ref.item is None:
        return Proposal(declared.digest, manifests, figures)
    try:
        found = choose_rollout(ref, declared, made, mine)
    except FieldConflictError:
        if not declared.accepted:
            raise
        return Proposal(declared.digest, manifests, figures)
    except ImpossibleRolloutError as error:
        return _failed(declared, SpecProblem("RolloutImpossible", with_hints(error)), figures)
    return Proposal(declared.digest, manifests, figures, risks=found.risks, notes=found.notes, way=found.way)


def with_another_replica(cluster: Cluster, live: Object, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The object that runs the service, with two replicas of each model that has one. UserError: it does not help."""
    kind, manifest = workload(manifests)
    name, namespace = str(manifest["metadata"]["name"]), str(live["metadata"]["namespace"])
    ref = ServiceRef(cluster, kind, name, namespace, dict(live), Permissions(cluster, namespace))
    return raised(ref, manifests)[0]


_REJECTED = frozenset({400, 403, 422})
"""HTTP codes of admission and validation. With others the same request may succeed the next time."""


def rejection(error: UserError) -> str:
    """Why the cluster does not take what was rendered, as conditions have it; empty if only a request failed."""
    if isinstance(error, FieldConflictError):
        return "FieldConflict"
    if isinstance(error, ClusterError | ConflictError):
        return ""
    if isinstance(error, ApiError):
        return "Rejected" if error.status in _REJECTED else ""
    return "MissingPrerequisite"


def _failed(declared: Declared, problem: SpecProblem, figures: Mapping[str, Any] | None) -> Proposal:
    return Proposal(declared.digest, (), figures, problem)


def _again(cluster: Cluster, declared: Declared, plan: Plan, earlier: Revision) -> Rendering:
    """An earlier revision, by whatever release it was rendered. Raises UserError if its code is gone."""
    manifests, notes = restored(cluster, earlier.manifests, declared.namespace)
    return Rendering(declared.name, declared.namespace, manifests, notes, plan)


def _service_ref(cluster: Cluster, made: Rendering, declared: Declared, live: Object | None) -> ServiceRef:
    """The service in the cluster; the rights of the controller are those of its installation, and not asked for."""
    kind, _ = workload(made.manifests)
    item = dict(live) if live is not None else None
    return read_service_ref(cluster, kind, declared.name, declared.namespace, (), item)


def _with_live_claims(ref: ServiceRef, made: Rendering) -> Rendering:
    """An earlier revision, whose claims may have grown since."""
    facts = read_facts(ref.cluster, made.manifests, ref.namespace)
    return replace(made, manifests=with_live_claims(made.manifests, facts))


def _fitted(ref: ServiceRef, made: Rendering) -> Rendering:
    """`made` as the cluster takes it."""
    return result_of(fit(ref, made))


def result_of(steps: Generator[object, None, _Result]) -> _Result:
    """What checks lead to. What they could not check is not shown: nobody waits for it here."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_Result", end.value)

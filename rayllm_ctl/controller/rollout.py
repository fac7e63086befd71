"""How a change of an LLMService reaches running pods: as spec.rollout says, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.apply.inventory import Inventory
from rayllm_ctl.controller.committed import ApplyWay
from rayllm_ctl.controller.declared import Declared
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.kuberay import answers
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.kube.owned import owned
from rayllm_ctl.model.observed.changes import Consequence, Diff, ObjectDiff
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.diff import DiffOptions, diff_live, planned_start_seconds
from rayllm_ctl.workflows.rollout.manifests import suspend_or_resume
from rayllm_ctl.workflows.rollout.outage import as_deployed, meaning, stops
from rayllm_ctl.workflows.rollout.restart_annotation import restart_of
from rayllm_ctl.workflows.rollout.upgrade.strategy import merged
from rayllm_ctl.workflows.rollout.upgrade.surge import place, raised
from rayllm_ctl.workflows.services import ServiceRef


class ImpossibleRolloutError(UserError):
    """The change cannot be made as spec.rollout says."""


@dataclass(frozen=True)
class Rollout:
    """way: how the revision is applied. risks: what that costs, which the user has to accept. notes: what it does."""

    way: ApplyWay
    risks: tuple[str, ...]
    notes: tuple[str, ...]


def choose_rollout(ref: ServiceRef, declared: Declared, made: Rendering, mine: Sequence[Object]) -> Rollout:
    """As `deploy --upgrade` does it, but that nothing is taken away to make capacity: that waits for consent.

    mine: the children that there are. Raises ImpossibleRolloutError, and UserError as diff does.
    """
    wanted, restart = declared.rollout, False
    diff = _diff(ref, declared, made.manifests, mine, made)
    own = _configured(ref, diff)
    if wanted == "new-cluster" and _has(own, "restart") and not _has(own, "new-cluster"):
        restart = True
        part = restart_of(ref.live, declared.digest)
        diff = _diff(ref, declared, [merged(item, part) for item in made.manifests], mine, made)
        own = _configured(ref, diff)
    notes = tuple(one.message for one in meaning(diff))
    if own is None:
        return Rollout("", (), notes)
    if wanted in ("in-place", "surge") and _has(own, "new-cluster"):
        fields = sorted({one.field for one in own.explanation.changes if one.effect == "new-cluster"})
        raise ImpossibleRolloutError(
            f"{', '.join(fields)} cannot change on the running RayCluster, as spec.rollout: {wanted} requires: KubeRay "
            "starts a second one",
            hint="spec.rollout: new-cluster, or auto",
        )
    consequences = own.explanation.consequences
    # What asks for a second RayCluster lets it wait for capacity, while the first one answers.
    lacking = () if wanted == "new-cluster" else _messages(one for one in consequences if one.capacity is False)
    lost = [one for one in consequences if stops(one)]
    if not lost or not answers(ref.live):
        return Rollout("new-cluster" if restart else "", lacking, notes)
    if wanted in ("auto", "surge") and all(one.effect == "restart" for one in lost):
        try:
            first, pods = raised(ref, made.manifests)
        except UserError as error:
            if wanted == "surge":
                raise ImpossibleRolloutError(error.message, hint="spec.rollout: new-cluster, or auto") from error
        else:
            if wanted == "surge" or place(ref.cluster, first, pods).ok:
                return Rollout("surge", lacking, notes)
    return Rollout("new-cluster" if restart else "", (*lacking, *_messages(lost)), notes)


def _messages(consequences: Iterable[Consequence]) -> tuple[str, ...]:
    return tuple(one.message for one in consequences)


def _diff(
    ref: ServiceRef, declared: Declared, manifests: Sequence[Mapping[str, Any]], mine: Sequence[Object], made: Rendering
) -> Diff:
    target = [owned(item, declared.item) for item in manifests]
    target = suspend_or_resume(target, ref.item, suspended=declared.suspended)
    applied = Inventory([dict(item) for item in mine], ())
    found = diff_live(ref, target, applied, DiffOptions(field_manager=CONTROLLER), planned_start_seconds(made))
    return as_deployed(found)


def _configured(ref: ServiceRef, diff: Diff) -> ObjectDiff | None:
    return next((item for item in diff.objects if item.kind == ref.kind.name and item.action == "configured"), None)


def _has(item: ObjectDiff | None, effect: str) -> bool:
    return item is not None and any(one.effect == effect for one in item.explanation.consequences)

"""Check a change for downtime before applying it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.errors import OutageError
from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube.kuberay import answers
from rayllm_ctl.model.observed.changes import Consequence, Diff, Effect
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.workflows.rollout.diff import SHRINK_HINT

_STOPPING: tuple[Effect, ...] = ("restart", "recreate", "in-place")
"""Effects that stop pods of a wanted service, unlike a deletion, which the user asked for."""


def meaning(diff: Diff) -> Iterator[Noted]:
    """The effects of changed objects, and hints."""
    for changed in diff.objects:
        if changed.action == "configured":
            yield from (
                Noted(f"{consequence.effect}: {consequence.message}")
                for consequence in changed.explanation.consequences
            )
            yield from (
                Noted(str(hint)) for consequence in changed.explanation.consequences for hint in consequence.hints
            )


def refuse_outage(diff: Diff, live: Object) -> None:
    """Raise OutageError if the change makes the service `live` unavailable and it answers now."""
    if not answers(live):
        return
    for changed in diff.objects:
        lost = [consequence for consequence in changed.explanation.consequences if stops(consequence)]
        if changed.kind in WORKLOADS and lost:
            own = tuple(str(hint) for consequence in lost for hint in consequence.hints)
            where = f"{changed.name} -n {changed.namespace}"
            scale = f"rayllm-ctl scale {where} --min-replicas 2    # first: one keeps answering"
            raise OutageError(
                f"{changed.kind.lower()}/{changed.name} would be unavailable during this change; nothing was applied: "
                + "; ".join(consequence.message for consequence in lost),
                hint=own or ((scale,) if any(consequence.effect == "restart" for consequence in lost) else ()),
            )


def as_deployed(diff: Diff) -> Diff:
    """`diff` without the hints that deploy makes unnecessary: it writes replica bounds to the RayCluster itself, and
    frees capacity for a second one if possible.
    """
    return replace(
        diff,
        objects=tuple(
            replace(changed, explanation=replace(changed.explanation, consequences=tuple(
                _as_deployed(consequence) for consequence in changed.explanation.consequences
            )))
            for changed in diff.objects
        ),
    )  # fmt: skip


def _as_deployed(consequence: Consequence) -> Consequence:
    if consequence.effect == "bounds":
        unless = f", unless {consequence.unless}" if consequence.unless else ""
        return replace(consequence, message=f"the bounds are written to the live RayCluster as well{unless}", hints=())
    return replace(consequence, hints=tuple(hint for hint in consequence.hints if hint != SHRINK_HINT))


def stops(consequence: Consequence) -> bool:
    """Whether a consequence stops pods of a wanted service."""
    return consequence.outage and consequence.effect in _STOPPING

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
    for item in diff.objects:
        if item.action == "configured":
            yield from (Noted(f"{one.effect}: {one.message}") for one in item.explanation.consequences)
            yield from (Noted(hint) for one in item.explanation.consequences for hint in one.hints)


def refuse_outage(diff: Diff, live: Object) -> None:
    """Raise OutageError if the change makes the service `live` unavailable and it answers now."""
    if not answers(live):
        return
    for item in diff.objects:
        lost = [one for one in item.explanation.consequences if stops(one)]
        if item.kind in WORKLOADS and lost:
            own = tuple(hint for one in lost for hint in one.hints)
            scale = f"rayllm-ctl scale {item.name} -n {item.namespace} --min 2    # first: one keeps answering"
            raise OutageError(
                f"{item.kind.lower()}/{item.name} would be unavailable during this change; nothing was applied: "
                + "; ".join(one.message for one in lost),
                hint=own or ((scale,) if any(one.effect == "restart" for one in lost) else ()),
            )


def as_deployed(diff: Diff) -> Diff:
    """`diff` without the hints that deploy makes unnecessary: it writes replica bounds to the RayCluster itself, and
    frees capacity for a second one if possible.
    """
    return replace(
        diff,
        objects=tuple(
            replace(item, explanation=replace(item.explanation, consequences=tuple(
                _as_deployed(one) for one in item.explanation.consequences
            )))
            for item in diff.objects
        ),
    )  # fmt: skip


def _as_deployed(one: Consequence) -> Consequence:
    if one.effect == "bounds":
        unless = f", unless {one.unless}" if one.unless else ""
        return replace(one, message=f"the bounds are written to the live RayCluster as well{unless}", hints=())
    return replace(one, hints=tuple(hint for hint in one.hints if hint != SHRINK_HINT))


def stops(one: Consequence) -> bool:
    """Whether a consequence stops pods of a wanted service."""
    return one.outage and one.effect in _STOPPING

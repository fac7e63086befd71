"""Two versions of one object: the changes, and their effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.changes import outages
from rayllm_ctl.changes.masking import comparable
from rayllm_ctl.model.observed.changes import Action, Consequence, Explain, Explanation, ObjectDiff, Running

_PRUNED = (
    "no longer rendered: rayllm-ctl deploy deletes it, Argo CD and Flux do where pruning is on, kubectl apply leaves it"
)


def compare_manifests(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, explain: Explain, running: Running
) -> ObjectDiff:
    """The change from `before` to `after`; one of them may be None: the object is created or deleted."""
    old, new = comparable(before, after)
    action: Action
    if old is None:
        action, explanation = "created", Explanation((), (Consequence("created", "does not exist yet"),))
    elif new is None:
        action, explanation = "deleted", _deleted(old)
    elif old == new:
        action, explanation = "unchanged", Explanation()
    else:
        action, explanation = "configured", explain(old, new, running)
    item = new or old or {}
    metadata = item.get("metadata") or {}
    return ObjectDiff(
        api_version=str(item.get("apiVersion") or ""),
        kind=str(item.get("kind") or ""),
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or ""),
        action=action,
        explanation=explanation,
        before=old,
        after=new,
    )


def _deleted(old: Mapping[str, Any]) -> Explanation:
    lost = outages.deleted(old)
    message = f"{_PRUNED}; {lost}" if lost else _PRUNED
    return Explanation((), (Consequence("deleted", message, outage=bool(lost)),))

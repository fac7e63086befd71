"""The revisions of a service, as far as the controller needs them: from their annotations. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

from rayllm_ctl.controller.types import ChildKey
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import CHILDREN, DONE, FIRST, PLAN, SPEC_DIGEST, WAY
from rayllm_ctl.model.observed.health import Object

REVISION_KIND = "ControllerRevision"

ApplyWay = Literal["", "surge", "new-cluster"]
"""How a revision is applied: as it is, with one more replica of each model first, or with what has KubeRay start a
second RayCluster."""

APPLY_WAYS: tuple[ApplyWay, ...] = get_args(ApplyWay)


@dataclass(frozen=True)
class Committed:
    """A revision that was written. digest: of the spec that it was rendered from; empty: not of the controller.

    done: its manifests have been applied as they are. children: kind and name of each. first: those that download its
    models, see stages. plan: as the status shows it.
    """

    number: int
    digest: str
    way: ApplyWay
    done: bool
    children: tuple[ChildKey, ...]
    first: tuple[ChildKey, ...] = ()
    plan: Mapping[str, Any] | None = None


def read_committed(stored: Mapping[ChildKey, Object]) -> tuple[Committed | None, Committed | None]:
    """The newest revision, and the newest one before it that was applied in full."""
    found = sorted((item for (kind, _), item in stored.items() if kind == REVISION_KIND), key=_number, reverse=True)
    known = [_read(item) for item in found]
    return next(iter(known), None), next((one for one in known[1:] if one.done), None)


def _read(item: Object) -> Committed:
    """A revision, from its annotations."""
    notes = item["metadata"].get("annotations") or {}
    return Committed(
        number=_number(item),
        digest=str(notes.get(SPEC_DIGEST, "")),
        way=next((way for way in APPLY_WAYS if way == notes.get(WAY)), ""),
        done=notes.get(DONE) == "true",
        children=_keys(notes.get(CHILDREN, "")),
        first=_keys(notes.get(FIRST, "")),
        plan=json.loads(notes.get(PLAN) or "null"),
    )


def _keys(text: str) -> tuple[ChildKey, ...]:
    """Kinds and names, from an annotation of a revision."""
    return tuple((kind, name) for kind, _, name in (entry.partition("/") for entry in text.split(",") if entry))


def _number(item: Object) -> int:
    """The number of a revision, which is the end of its name; its `revision` is not part of the metadata."""
    number = str(item["metadata"]["name"]).rpartition("-")[2]
    return int(number) if number.isdigit() else 0

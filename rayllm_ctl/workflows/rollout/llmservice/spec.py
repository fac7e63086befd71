"""The spec of an LLMService as the controller and the commands that adopt a service for it agree on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.labels import CHILDREN, DONE, FIRST, PLAN, SPEC_DIGEST, WAY
from rayllm_ctl.model.spec.ray_options import NO_SHRINK
from rayllm_ctl.model.spec.service import LLMService

_NOT_RENDERED = frozenset({"suspend", "planOnly", "rollout"})
"""Fields of the spec that say what is done with the rendering, and not what it is."""


def spec_digest(spec: Mapping[str, Any]) -> str:
    """The digest of a spec: equal for equal values of what is rendered, in whatever order they stand."""
    rendered = {key: value for key, value in spec.items() if key not in _NOT_RENDERED}
    text = json.dumps(rendered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_controllable(service: LLMService) -> None:
    """Raise UserError if the spec asks for what only the command line does: files of the user's machine, which the
    controller does not have, and fewer replicas for a while.
    """
    named = [f"spec.applications[{number}].code" for number, one in enumerate(service.applications) if one.code]
    if service.load.calibration is not None:
        named.append("spec.load.calibration")
    named += [
        f"spec.models[{number}].load.calibration"
        for number, model in enumerate(service.models)
        if model.load.calibration is not None
    ]
    if named:
        raise UserError(f"{', '.join(named)}: a file of a user's machine, which only the command line can read")
    if service.rollout == "shrink":
        raise UserError(f"spec.rollout: shrink: {NO_SHRINK}", hint="spec.rollout: auto, or new-cluster")


def revision_annotations(
    digest: str, manifests: Sequence[Mapping[str, Any]], plan: Mapping[str, Any] | None, *, way: str, done: bool,
    first: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:  # fmt: skip
    """The annotations of a revision of the controller. digest: of the spec that it was rendered from. plan: as the
    status shows it. way, done: how it is applied, and whether that has been done. first: kind and name of the objects
    that are applied before the others.
    """
    return {
        SPEC_DIGEST: digest,
        WAY: way,
        DONE: "true" if done else "false",
        PLAN: json.dumps(plan, sort_keys=True),
        CHILDREN: ",".join(f"{one['kind']}/{one['metadata']['name']}" for one in manifests),
        FIRST: ",".join(f"{kind}/{name}" for kind, name in first),
    }

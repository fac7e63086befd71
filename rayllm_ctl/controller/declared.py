"""What a stored LLMService or BatchJob asks for, and whether it can be had."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import ACCEPTED
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.load import load_stored

_NOT_RENDERED = frozenset({"suspend", "planOnly"})
"""Fields of the spec that say what is done with the rendering, and not what it is."""


@dataclass(frozen=True)
class SpecProblem:
    """Why a spec leads to nothing. reason: one word, as conditions have it; message: for people.

    passing: it may pass without a change of the spec, so it is looked at again.
    """

    reason: str
    message: str
    passing: bool = False


@dataclass(frozen=True)
class Declared:
    """An LLMService or a BatchJob as it is stored.

    digest: of the spec as far as it is rendered. accepted: whether the user accepts what this generation costs.
    wanted: what it describes; None: nothing, because of `problem`.
    """

    item: Object
    digest: str
    wanted: LLMService | BatchJob | None
    problem: SpecProblem | None = None

    @property
    def name(self) -> str:
        return str(self.item["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.item["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.item["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.item["metadata"].get("generation") or 0)

    @property
    def service(self) -> LLMService | None:
        """The service that is wanted."""
        return self.wanted if isinstance(self.wanted, LLMService) else None

    @property
    def batch(self) -> BatchJob | None:
        """The batch job that is wanted."""
        return self.wanted if isinstance(self.wanted, BatchJob) else None

    @property
    def accepted(self) -> bool:
        notes = self.item["metadata"].get("annotations") or {}
        return str(notes.get(ACCEPTED, "")) == str(self.generation)

    @property
    def suspended(self) -> bool:
        return self.item["spec"].get("suspend") is True

    @property
    def plan_only(self) -> bool:
        return self.item["spec"].get("planOnly") is True


def declare(item: Object) -> Declared:
    """What `item` asks for. What it lacks to be a service is its `problem`."""
    digest = spec_digest(item.get("spec") or {})
    try:
        wanted = load_stored(item)
        if isinstance(wanted, LLMService):
            _require_no_files(wanted)
    except UserError as error:
        return Declared(item, digest, None, SpecProblem("InvalidSpec", error.message))
    return Declared(item, digest, wanted)


def spec_digest(spec: Mapping[str, Any]) -> str:
    """The digest of a spec: equal for equal values of what is rendered, in whatever order they stand."""
    rendered = {key: value for key, value in spec.items() if key not in _NOT_RENDERED}
    text = json.dumps(rendered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _require_no_files(service: LLMService) -> None:
    """Raise UserError if the spec names files of the user's machine: the controller has none of them."""
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

"""What a stored LLMService or BatchJob asks for, and whether it can be had."""

from __future__ import annotations

from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import ACCEPTED
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.load import load_stored
from rayllm_ctl.workflows.rollout.llmservice.spec import require_controllable, spec_digest


def with_hints(error: UserError) -> str:
    """An error with its hints."""
    return "\n".join([error.message, *(f"→ {hint}" for hint in error.hints)])


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
    def rollout(self) -> Way:
        """How the user wants a change to reach running pods."""
        return self.service.rollout if self.service is not None else "auto"

    @property
    def plan_only(self) -> bool:
        return self.item["spec"].get("planOnly") is True


def declare(item: Object) -> Declared:
    """What `item` asks for. What it lacks to be a service is its `problem`."""
    digest = spec_digest(item.get("spec") or {})
    try:
        wanted = load_stored(item)
        if isinstance(wanted, LLMService):
            require_controllable(wanted)
    except UserError as error:
        return Declared(item, digest, None, SpecProblem("InvalidSpec", with_hints(error)))
    return Declared(item, digest, wanted)

"""Fields of a spec that ask something of the controller: what the command line does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.service import LLMService

if TYPE_CHECKING:
    from rayllm_ctl.model.spec.batch import BatchJob


def require_deployable(spec: LLMService | BatchJob) -> None:
    """UsageError for a spec that asks for its pods not to be started, where they would be."""
    if spec.plan_only:
        raise UsageError(
            f"spec.planOnly is true: {spec.name} is to be planned, and not deployed",
            hint=("rayllm-ctl plan -f FILE", "remove spec.planOnly to deploy it"),
        )
    if isinstance(spec, LLMService) and spec.suspend:
        raise UsageError(
            f"spec.suspend is true: deploying {spec.name} would start its pods; only the controller suspends by a spec",
            hint=(f"rayllm-ctl suspend {spec.name}    # if it is deployed", "remove spec.suspend to deploy it"),
        )


def notes_without_controller(spec: LLMService | BatchJob) -> Iterator[str]:
    """What the manifests of `spec` do when they are applied by anyone but the controller."""
    if spec.plan_only:
        yield "spec.planOnly is true: the controller would not apply these manifests"
    if spec.suspend and isinstance(spec, LLMService):
        yield "spec.suspend is true: these manifests start the pods, which the controller would delete"
    elif spec.suspend:
        yield "spec.suspend is true: the job starts once it is false"

"""Additional notes of `render` and `deploy` on a plan: the source of facts, a GPU's name, a missing token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.catalog.gpus import reading, unconfirmed
from rayllm_ctl.catalog.models import is_gated
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import LLMService

UNSEEN = "unknown (the folder is only visible in the pod)"
"""The source of the facts of a model whose files only the pods have."""

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")
"""Environment variables with a token for the hub, or the path of one."""


def warned(service: LLMService, plan: Plan, *, needs_token: bool = True) -> Plan:
    """`plan` with the notes to show before it is deployed. needs_token: False if the pods have a token for the hub from
    elsewhere than the spec, or do not need one."""
    return replace(plan, warnings=(*_warnings(service, plan, needs_token), *plan.warnings))


def _warnings(service: LLMService, plan: Plan, needs_token: bool) -> Iterator[str]:
    source = plan.facts_source
    if not source.startswith(("catalog", UNSEEN)):
        yield f"the facts of {service.model.id} are from {source}"
    gpu = service.accelerator.gpu if service.accelerator.kind == "gpu" else None
    if gpu is not None and (note := reading(gpu)):
        yield note
    if plan.gpu is not None:
        for label in unconfirmed(service.scheduling.node_selector):
            yield f"no known GPU is on nodes with the label {label}: the planned GPU ({plan.gpu.name}) is not confirmed"
    if needs_token and service.model.path is None and is_gated(service.model.id) and not _has_token(service):
        yield (
            f"{service.model.id} is gated on the Hugging Face Hub, and the pods have no token to download it: "
            "--hf-token-secret NAME/KEY (kubectl create secret generic NAME --from-literal=KEY=TOKEN)"
        )


def _has_token(service: LLMService) -> bool:
    """Whether the pods may have a token for the hub; the variables of a whole Secret are unknown."""
    worker = service.pods.worker
    named = any(variable.name in TOKEN_VARIABLES for variable in worker.env)
    return service.model.token_secret is not None or named or bool(worker.env_from)

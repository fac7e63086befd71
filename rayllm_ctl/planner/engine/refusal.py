"""What is rejected before memory is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.model.spec.service import LLMService

CONTEXT = "{context}"
"""Stands in a problem's flags for the context length that the plan with the change has."""


@dataclass(frozen=True)
class Refusal:
    """A contradiction; `change` resolves it and `flags` is how a user types that (neither: no one change does)."""

    reason: Reason
    flags: str = ""
    change: Callable[[LLMService], LLMService] | None = None


def changed_engine(**fields: Any) -> Callable[[LLMService], LLMService]:
    """A change of fields of the engine."""
    return lambda service: replace(service, engine=replace(service.engine, **fields))


def requires(least: tuple[int, int], gpu: GPU) -> str:
    """What a GPU lacks, for messages."""
    has = ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "unknown"
    return f"requires compute capability {least[0]}.{least[1]}+, has {has}"

"""From a model, a GPU and settings to where its memory goes."""

from __future__ import annotations

from rayllm_ctl.model.enginefacts import EngineFacts
from rayllm_ctl.model.facts import ModelFacts
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.planner.memory.types import MemoryEstimate, MemorySettings


def estimate(facts: ModelFacts, gpu: GPU, engine: EngineFacts, settings: MemorySettings) -> MemoryEstimate:
    """Memory of the fullest GPU of one replica."""
    raise NotImplementedError

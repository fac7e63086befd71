"""Images and videos whose tokens must all be in one step, and what that asks of max_num_batched_tokens.

vLLM does not start with fewer tokens per step than the largest item has (v1/core/encoder_cache_manager.py
compute_mm_encoder_budget), where it may not split items: with disable_chunked_mm_input, which it sets itself for models
whose image tokens attend to one another (platforms/cuda.py check_and_update_config). Read in 0.29; the message is in
reports of 0.19.1 and 0.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.planner.engine.refusal import Refusal, changed_engine
from rayllm_ctl.planner.memory.drafts import as_mapping
from rayllm_ctl.planner.memory.options import read_options
from rayllm_ctl.planner.request import Request

_GEMMA_4_FRAMES = 32
_GEMMA_4_FRAME = 70 + 2 + 6
"""Tokens of a frame, with its marks and its time (models/gemma4_mm.py get_mm_max_tokens_per_item)."""


def least_step(facts: ModelFacts, args: Mapping[str, Any]) -> int:
    """The tokens of the largest image or video, if a step must hold all of them; else 0. args: engine arguments."""
    whole = "whole-images" in facts.traits or args.get("disable_chunked_mm_input") is True
    if not whole or not read_options(args).images:
        return 0
    limits = as_mapping(args.get("limit_mm_per_prompt"))
    images = [encoder.tokens for encoder in facts.encoders if limits.get(encoder.modality) != 0]
    return max((*images, _video(facts, limits.get("video"))), default=0)


def _video(facts: ModelFacts, limit: object) -> int:
    if limit == 0 or not facts.model_type.startswith("gemma4"):
        return 0
    frames = as_mapping(limit).get("num_frames")
    least = min(frames, _GEMMA_4_FRAMES) if isinstance(frames, int) and frames > 0 else _GEMMA_4_FRAMES
    return least * _GEMMA_4_FRAME


def item_problems(request: Request) -> Iterator[Refusal]:
    """A step that the user makes too small for an image or a video."""
    tokens = request.service.engine.max_num_batched_tokens
    least = least_step(request.facts, request.service.engine.args)
    if tokens is None or tokens >= least:
        return
    message = f"{tokens:,} tokens per step are less than the {least:,} of one image or video, which are not split"
    yield Refusal(
        Reason("step-below-item", message),
        f"--max-num-batched-tokens {least}",
        changed_engine(max_num_batched_tokens=least),
    )

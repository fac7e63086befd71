"""Images and videos whose tokens must all be in one step."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model
from rayllm_ctl.workflows.plan.model import make_plan

GEMMA_3 = "google/gemma-3-12b-it"
GEMMA_4 = "google/gemma-4-31B-it"
GIB_48 = "L40S"
"""A GPU on which vLLM's default is 2,048 tokens per step."""


def planned(model: str, tokens: int | None = None, **args: Any) -> Plan:
    engine = Engine(max_num_batched_tokens=tokens, max_num_seqs=64, args=args)
    return make_plan(LLMService("q", Model(model), engine=engine, accelerator=Accelerator(gpu=GIB_48)), OFFLINE)


@pytest.mark.parametrize(
    ("model", "args", "tokens"),
    [
        (GEMMA_4, {}, 2496),
        (GEMMA_4, {"limit_mm_per_prompt": {"video": {"count": 1, "num_frames": 30}}}, 2340),
        (GEMMA_4, {"limit_mm_per_prompt": {"video": 0}}, 2048),
        (GEMMA_4, {"limit_mm_per_prompt": {"image": 0, "video": 0}}, 2048),
        (GEMMA_4, {"language_model_only": True}, 2048),
        (GEMMA_3, {}, 2048),
        ("Qwen/Qwen2.5-VL-7B-Instruct", {}, 2048),
        ("Qwen/Qwen2.5-VL-7B-Instruct", {"disable_chunked_mm_input": True}, 16384),
    ],
)
def test_a_step_holds_the_largest_item_that_is_not_split(model: str, args: dict[str, Any], tokens: int) -> None:
    """2,496: "max_tokens_per_mm_item (2496)" in logs of Gemma 4, with which vLLM does not start on 2,048."""
    plan = planned(model, **args)
    assert plan.engine is not None
    assert plan.engine.max_num_batched_tokens == tokens
    assert any("all tokens of an image or a video" in note for note in plan.notes) == (tokens > 2048)


@pytest.mark.parametrize(("model", "tokens", "least"), [(GEMMA_4, 2048, 2496), (GEMMA_3, 200, 256)])
def test_a_step_below_an_item_is_rejected(model: str, tokens: int, least: int) -> None:
    plan = planned(model, tokens)
    assert [reason.code for reason in plan.reasons] == ["step-below-item"]
    assert f"--max-num-batched-tokens {least}" in [suggestion.flags for suggestion in plan.suggestions]
    assert "step-below-item" not in [reason.code for reason in planned(model, least).reasons]

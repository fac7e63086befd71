from __future__ import annotations

from typing import Any

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Parallelism
from rayllm_ctl.workflows.plan.model import make_plan


def planned(**speculation: Any) -> Plan:
    args = {"speculative_config": speculation} if speculation else {}
    service = LLMService(
        "q",
        Model("Qwen/Qwen3-32B"),
        engine=Engine(args=args),
        accelerator=Accelerator(gpu="H100-80GB"),
        parallelism=Parallelism(2),
    )
    return make_plan(service, OFFLINE)


def test_a_draft_model_is_looked_up_like_the_model() -> None:
    alone, both = planned(), planned(method="draft_model", model="Qwen/Qwen3-0.6B", num_speculative_tokens=3)
    assert both.verdict == "fits"
    assert alone.memory is not None
    assert both.memory is not None
    assert 0.5e9 < both.memory.parameter_bytes - alone.memory.parameter_bytes < 0.8e9


def test_a_draft_model_that_nobody_knows_makes_the_plan_risky() -> None:
    plan = planned(model="nobody/knows-it")
    assert plan.verdict == "risky"
    assert "nobody/knows-it is not counted" in plan.reasons[0].message


def test_a_head_of_an_unknown_form_makes_the_plan_risky() -> None:
    plan = planned(method="medusa", model="nobody/knows-it")
    assert [reason.code for reason in plan.reasons] == ["draft-model-not-counted"]

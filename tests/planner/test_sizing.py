from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.model.plan.plan import Band, MemoryPlan, Reason
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.evaluate import memory_verdict
from rayllm_ctl.planner.memory import KVGroup, MemoryEstimate
from rayllm_ctl.planner.request import Shape, Workload
from rayllm_ctl.planner.speed.sizing import request_capacity
from tests.planner.gpus import H100

SETTINGS = ResolvedSettings(32768, 256, 8192, 0.9, "bfloat16", "auto", None, {})


def estimate(groups: tuple[KVGroup, ...], blocks: Band, concurrency: Band, cache: int = 10 * 2**30) -> MemoryEstimate:
    plan = MemoryPlan(80, 72, 20, 20, 1, 1, 1, Band(cache, cache, cache), Band(0, 0, 0), concurrency)
    return MemoryEstimate(plan, blocks, blocks, blocks, 16, 1, blocks, groups, 2**30, Band(0, 0, 0), ())


def load(given: int, answered: int) -> Workload:
    return Workload(given, answered, None, None, None, None, stated=False)


def test_full_attention_takes_blocks_by_length_and_windows_do_not() -> None:
    """5,120 tokens are 320 blocks of a full layer, but 257 of a window of 4,096 and one of a state."""
    groups = (
        KVGroup("full", 8, 16, 1, 2048),
        KVGroup("sliding", 8, 16, 1, 257),
        KVGroup("state", 8, 16, 1, 1),
    )
    held = request_capacity(estimate(groups, Band(578, 1156, 5780), Band(1, 1, 1)), load(5120, 0))
    assert held == Band(1.0, 2.0, 10.0)


def test_usually_answers_are_half_written() -> None:
    """3,072 tokens of prompt and 2,048 of answer: 320 blocks at the end, 256 on average."""
    held = request_capacity(
        estimate((KVGroup("full", 8, 16, 1, 2048),), Band(960, 1280, 2560), Band(1, 1, 1)), load(3072, 2048)
    )
    assert held == Band(3.0, 5.0, 10.0)


@pytest.mark.parametrize(
    ("concurrency", "verdict", "code"),
    [
        (Band(1.0, 1.5, 2.0), "fits", None),
        (Band(0.9, 1.5, 2.0), "risky", "kv-cache-uncertain"),
        (Band(0.5, 0.9, 1.1), "does-not-fit", "kv-cache-too-small"),
    ],
)
def test_the_low_end_decides_between_fits_and_risky(concurrency: Band, verdict: str, code: str | None) -> None:
    found, reasons = memory_verdict(estimate((), Band(1, 1, 1), concurrency), SETTINGS, Shape(H100, 1, 1))
    assert found == verdict
    assert [reason.code for reason in reasons] == ([code] if code else [])


def test_what_lies_outside_the_budget_is_a_risk() -> None:
    problem = Reason("outside-budget", "too little is left", "--gpu-memory-utilization 0.9")
    doubtful = replace(estimate((), Band(1, 1, 1), Band(2, 2, 2)), problems=(problem,))
    assert memory_verdict(doubtful, SETTINGS, Shape(H100, 1, 1)) == ("risky", (problem,))


def test_nothing_left_is_told_as_weights() -> None:
    none = estimate((), Band(0, 0, 0), Band(0, 0, 0), cache=0)
    found, reasons = memory_verdict(none, SETTINGS, Shape(H100, 1, 1))
    assert (found, reasons[0].code) == ("does-not-fit", "weights-exceed-memory")

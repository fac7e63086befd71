"""What a service did during load tests, as text and drawn."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from rayllm_ctl.console.bench.service import rows_by_load, service_problems
from rayllm_ctl.console.bench.service_plot import drawing, has_service
from rayllm_ctl.model.bench.service import LoadLook, during
from rayllm_ctl.model.observed.vllm_metrics import EngineFigures

LOOKS = [
    (0.0, LoadLook(1, 3, EngineFigures(8, 30, 0.5, {"a": 0}), queued=2)),
    (12.0, LoadLook(2, 3, EngineFigures(16, 3, 0.81, {"a": 1}))),
    (31.0, LoadLook(3, 3, None, problems=("not permitted to get pods/proxy",))),
]
SCALED: dict[str, Any] = {
    "service": during(LOOKS, 0.0, 40.0),
    "predicted": None,
    "notPredicted": "the number of replicas is unknown, or changed",
    "timeline": [{"succeeded": second, "failed": 0, "outputTokens": 0} for second in range(5)],
}
NOTHING: dict[str, Any] = {**SCALED, "service": None}


def test_each_load_has_its_line_and_each_reason_is_said_once() -> None:
    rows = list(rows_by_load([("1 in flight", SCALED), ("2 in flight", NOTHING), ("4 in flight", SCALED)]))
    course = (
        "replicas 1 → 2 → 3 (after 12s, 31s); "
        "running at most 16, waiting 30, 2 in the gateway's queue, KV cache 81%, 1 preemption"
    )
    assert rows == [
        ("service", f"1 in flight: {course}"),
        ("service", f"4 in flight: {course}"),
        ("predicted", "nothing: the number of replicas is unknown, or changed"),
    ]
    assert service_problems([SCALED, NOTHING, SCALED]) == ["not permitted to get pods/proxy"]


def test_replicas_are_drawn_below_the_requests_and_gaps_stay() -> None:
    axes = MagicMock()
    axes.get_ylim.return_value = (0.0, 30.0)
    below = axes.figure.add_subplot.return_value
    drawing(SCALED)(axes, None)
    drawn = {one.kwargs["label"]: str(list(one.args[1])) for one in axes.plot.call_args_list}
    assert drawn == {
        "answered per second": "[0, 1, 2, 3]",  # the last second is not whole
        "running": "[8, 16, nan]",
        "waiting": "[30, 3, nan]",
        "in the gateway's queue": "[2, nan, nan]",
    }
    drawn = {one.kwargs["label"]: str(list(one.args[1])) for one in below.plot.call_args_list}
    assert drawn == {"wanted": "[3, 3, 3]", "running": "[1, 2, 3]"}
    axes.set_ylim.assert_called_with(0, 42.0)
    assert has_service(SCALED)
    assert not has_service(NOTHING)
    assert not has_service({})

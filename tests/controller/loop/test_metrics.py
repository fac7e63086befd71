from __future__ import annotations

import re
from typing import Any

from rayllm_ctl.controller.loop.metrics import SECONDS, Metrics, Outcome

RESULTS: tuple[Outcome, ...] = ("success", "success", "error")


def service(name: str, ready: str | None, reason: str = "") -> dict[str, Any]:
    conditions = [{"type": "Planned", "status": "True", "reason": "Fits"}]
    if ready:
        conditions.append({"type": "Ready", "status": ready, "reason": reason})
    return {"kind": "LLMService", "metadata": {"name": name}, "status": {"conditions": conditions}}


def samples(metrics: Metrics, **values: Any) -> dict[str, float]:
    given = {"depth": 0, "failing": 0, "leading": False, "objects": (), **values}
    page = metrics.text(**given)
    assert page.endswith("\n")
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_reconciliations_are_counted_by_result() -> None:
    metrics = Metrics()
    for result in RESULTS:
        metrics.ended(result, 0.1)
    found = samples(metrics)
    assert found['rayllm_controller_reconcile_total{result="success"}'] == 2
    assert found['rayllm_controller_reconcile_total{result="error"}'] == 1


def test_large_counts_are_exact() -> None:
    metrics = Metrics()
    metrics._results["success"] = 123_456_789
    assert samples(metrics)['rayllm_controller_reconcile_total{result="success"}'] == 123_456_789


def test_durations_are_a_cumulated_histogram() -> None:
    metrics = Metrics()
    for seconds in (0.005, 0.1, 0.3, 100.0):
        metrics.ended("success", seconds)
    found = samples(metrics)
    name = "rayllm_controller_reconcile_duration_seconds"
    buckets = {key: value for key, value in found.items() if key.startswith(f"{name}_bucket")}
    assert list(buckets) == [f'{name}_bucket{{le="{bound:g}"}}' for bound in SECONDS] + [f'{name}_bucket{{le="+Inf"}}']
    assert [buckets[f'{name}_bucket{{le="{bound}"}}'] for bound in ("0.01", "0.05", "0.1", "0.25", "0.5", "60")] == [
        1, 1, 2, 2, 3, 3,
    ]  # fmt: skip
    assert (buckets[f'{name}_bucket{{le="+Inf"}}'], found[f"{name}_count"], found[f"{name}_sum"]) == (4, 4, 100.405)


def test_what_is_now_is_handed_over() -> None:
    found = samples(Metrics(), depth=7, failing=2, leading=True)
    names = ("queue_depth", "failing", "leader")
    assert [found[f"rayllm_controller_{name}"] for name in names] == [7, 2, 1]


def test_objects_are_counted_by_their_condition_ready() -> None:
    objects = [
        service("a", "True", "Serving"),
        service("b", "True", "Serving"),
        service("c", "False", "NoGPU"),
        service("d", None),
        {"kind": "BatchJob", "metadata": {"name": "e"}},
    ]
    found = samples(Metrics(), objects=objects)
    assert {key: value for key, value in found.items() if "objects" in key} == {
        'rayllm_controller_objects{kind="LLMService",ready="True",reason="Serving"}': 2,
        'rayllm_controller_objects{kind="LLMService",ready="False",reason="NoGPU"}': 1,
        'rayllm_controller_objects{kind="LLMService",ready="Unknown",reason=""}': 1,
        'rayllm_controller_objects{kind="BatchJob",ready="Unknown",reason=""}': 1,
    }


def test_values_of_labels_are_escaped() -> None:
    page = Metrics().text(depth=0, failing=0, leading=False, objects=[service("a", "False", 'say "a\\b"\n')])
    assert r'reason="say \"a\\b\"\n"' in page


def test_every_metric_has_a_type_and_a_description() -> None:
    page = Metrics().text(depth=0, failing=0, leading=False, objects=[service("a", "True")])
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    assert set(re.findall(r"^# HELP (\S+) \S", page, re.M)) == set(types)
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^(\w+)", page, re.M)}
    assert used == set(types)
    assert all((kind == "counter") == name.endswith("_total") for name, kind in types.items())

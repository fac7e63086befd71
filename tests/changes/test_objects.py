from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.changes.objects import explain
from rayllm_ctl.model.changes import Running

AT_ONCE = {"type": "Recreate"}


def item(kind: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **parts}


@pytest.mark.parametrize(
    ("before", "after", "effect", "outage", "words"),
    [
        (item("Service", spec={"type": "ClusterIP"}), item("Service", spec={"type": "LoadBalancer"}), "in-place", False,
         "takes effect at once"),
        (item("ConfigMap", data={"a": "1"}), item("ConfigMap", data={"a": "2"}), "in-place", False, "mounted files"),
        (item("Deployment", spec={"template": {"a": 1}}), item("Deployment", spec={"template": {"a": 2}}), "restart",
         False, "step by step"),
        (item("Deployment", spec={"template": {"a": 1}, "strategy": AT_ONCE}),
         item("Deployment", spec={"template": {"a": 2}, "strategy": AT_ONCE}), "restart", True, "stops all"),
        (item("Deployment", spec={"replicas": 1}), item("Deployment", spec={"replicas": 2}), "in-place", False,
         "at once"),
    ],
)  # fmt: skip
def test_objects_next_to_a_service(before: Any, after: Any, effect: str, outage: bool, words: str) -> None:
    found = explain(before, after, Running())
    (only,) = found.consequences
    assert [one.effect for one in found.changes] == [effect] == [only.effect]
    assert only.outage is outage
    assert words in only.message


def test_a_status_is_no_change() -> None:
    assert explain(item("Service", status={"a": 1}), item("Service"), Running()).changes == ()


@pytest.mark.parametrize("kind", ["HTTPRoute", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor"])
def test_kinds_that_are_read_again_take_effect_at_once(kind: str) -> None:
    found = explain(item(kind, spec={"a": 1}), item(kind, spec={"a": 2}), Running())
    assert [one.effect for one in found.changes] == ["in-place"]
    assert "at once" in found.consequences[0].message


@pytest.mark.parametrize("kind", ["BatchJob", "Job", "RayCronJob", "ScaledObject", "Widget"])
def test_what_the_controller_of_another_kind_does_is_unknown(kind: str) -> None:
    found = explain(item(kind, spec={"a": 1}), item(kind, spec={"a": 2}), Running())
    assert [one.effect for one in found.changes] == ["unknown"]
    assert found.consequences[0].message == f"what the controller of {kind} does is not known"
    labelled = {**item(kind), "metadata": {"name": "a", "labels": {"b": "c"}}}
    assert [one.effect for one in explain(item(kind), labelled, Running()).changes] == ["in-place"]

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.changes.raycluster import explain_raycluster
from rayllm_ctl.model.observed.changes import Explanation, Running
from rayllm_ctl.model.text.hint import Hint
from tests.changes.services import changed, group, ray_cluster, set_at

WORKER = ("workerGroupSpecs", 0)
IMAGE = (*WORKER, "template", "spec", "containers", 0, "image")
RECREATE = {"upgradeStrategy": {"type": "Recreate"}}


def change(*path: str | int, value: Any, **spec: Any) -> tuple[dict[str, str], Explanation]:
    item = ray_cluster(**spec)
    found = explain_raycluster(item, changed(item, set_at(*path, value=value)), Running())
    return {one.field: one.effect for one in found.changes}, found


@pytest.mark.parametrize(
    ("path", "value", "spec", "effect"),
    [
        (IMAGE, "ray:2", {}, "not-rolled-out"),
        (IMAGE, "ray:2", RECREATE, "recreate"),
        ((*WORKER, "maxReplicas"), 5, {}, "in-place"),
        ((*WORKER, "maxReplicas"), 5, RECREATE, "in-place"),
        ((*WORKER, "replicas"), 2, {}, "in-place"),
        (("workerGroupSpecs",), [group(), group("more")], {}, "in-place"),
        (("workerGroupSpecs",), [group(), group("more")], RECREATE, "recreate"),
        (("workerGroupSpecs",), [], {}, "not-rolled-out"),
        (("workerGroupSpecs", 0, "template", "spec", "tolerations"), [{"key": "a"}], RECREATE, "not-rolled-out"),
        (("suspend",), True, {}, "in-place"),
        (("upgradeStrategy",), {"type": "Recreate"}, {}, "in-place"),
    ],
)
def test_what_becomes_of_a_field(path: tuple[str | int, ...], value: Any, spec: Any, effect: str) -> None:
    effects, found = change(*path, value=value, **spec)
    assert list(effects.values()) == [effect]
    assert found.consequences


def test_recreating_is_an_outage_and_leaving_pods_alone_is_none() -> None:
    assert change(*IMAGE, value="ray:2", **RECREATE)[1].consequences[0].outage
    (left,) = change(*IMAGE, value="ray:2")[1].consequences
    assert not left.outage
    assert Hint("kubectl delete pod -l ray.io/cluster=qwen") in left.hints


def test_recreate_rolls_out_what_was_left_before() -> None:
    effects, found = change("upgradeStrategy", value=RECREATE["upgradeStrategy"])
    assert effects == {"upgradeStrategy": "in-place"}
    assert [(one.effect, one.outage) for one in found.consequences] == [("recreate", True)]


def test_metadata_alone_restarts_nothing() -> None:
    item = ray_cluster()
    other = {**item, "metadata": {**item["metadata"], "labels": {"a": "b"}}}
    found = explain_raycluster(item, other, Running())
    assert [one.effect for one in found.changes] == ["in-place"]
    assert explain_raycluster(item, item, Running()) == Explanation()


@pytest.mark.parametrize(
    ("path", "value", "spec", "outage"),
    [
        (("suspend",), True, {}, True),
        (("suspend",), None, {"suspend": True}, False),
        ((*WORKER, "minReplicas"), 0, {"enableInTreeAutoscaling": False}, True),
        ((*WORKER, "maxReplicas"), 0, {}, True),
        ((*WORKER, "minReplicas"), 0, {}, False),
        ((*WORKER, "suspend"), True, {}, True),
        ((*WORKER, "maxReplicas"), 1, {}, False),
    ],
)
def test_workers_that_stop_are_an_outage(path: tuple[str | int, ...], value: Any, spec: Any, outage: bool) -> None:
    (only,) = change(*path, value=value, **spec)[1].consequences
    assert (only.effect, only.outage) == ("in-place", outage)
    assert ("deletes all" in only.message) is outage


def test_another_version_of_the_api_is_a_change_that_restarts_nothing() -> None:
    item = ray_cluster()
    found = explain_raycluster(item, {**item, "apiVersion": "ray.io/v1alpha1"}, Running())
    assert [(one.field, one.effect) for one in found.changes] == [("apiVersion", "in-place")]
    assert [one.message for one in found.consequences] == ["no running pod restarts"]

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.changes.raycluster import explain
from rayllm_ctl.model.changes import Explanation, Running
from tests.changes.services import changed, group, ray_cluster, set_at

WORKER = ("workerGroupSpecs", 0)
IMAGE = (*WORKER, "template", "spec", "containers", 0, "image")
RECREATE = {"upgradeStrategy": {"type": "Recreate"}}


def change(*path: str | int, value: Any, **spec: Any) -> tuple[dict[str, str], Explanation]:
    item = ray_cluster(**spec)
    found = explain(item, changed(item, set_at(*path, value=value)), Running())
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
    assert "kubectl delete pod -l ray.io/cluster=qwen" in left.hints


def test_recreate_rolls_out_what_was_left_before() -> None:
    effects, found = change("upgradeStrategy", value=RECREATE["upgradeStrategy"])
    assert effects == {"upgradeStrategy": "in-place"}
    assert [(one.effect, one.outage) for one in found.consequences] == [("recreate", True)]


def test_metadata_alone_restarts_nothing() -> None:
    item = ray_cluster()
    other = {**item, "metadata": {**item["metadata"], "labels": {"a": "b"}}}
    found = explain(item, other, Running())
    assert [one.effect for one in found.changes] == ["in-place"]
    assert explain(item, item, Running()) == Explanation()

"""What is rejected in spec.workerGroups, with the path to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import Accelerator, ExtraWorkers, LLMService, Model, PodResources, Toleration

GOOD = LLMService("qwen", Model("Qwen/Qwen3-8B"))


@pytest.mark.parametrize(
    ("group", "where", "words"),
    [
        (ExtraWorkers("A"), "name", "DNS label"),
        (ExtraWorkers("gpu"), "name", "duplicate"),
        (ExtraWorkers("headgroup"), "name", "reserved"),
        (ExtraWorkers("a", min=-1), "min", "at least 0"),
        (ExtraWorkers("a", max=0), "max", "at least 1"),
        (ExtraWorkers("a", max=2**31), "max", "less than"),
        (ExtraWorkers("a", 3, 2), "min", "3 is greater than max (2)"),
        (ExtraWorkers("a", gpus=-1), "gpus", "at least 0"),
        (ExtraWorkers("a", gpus=0, resources=PodResources(cpu="1")), "resources.memory", "required"),
        (ExtraWorkers("a", idle_timeout=0.5), "idleTimeout", "whole number of seconds"),
        (ExtraWorkers("a", resources=PodResources(cpu="x")), "resources.cpu", "quantity"),
        (ExtraWorkers("a", resources=PodResources(memory="10")), "resources.memory", "10 bytes"),
        (ExtraWorkers("a", ray_resources={"CPU": 1}), "rayResources.CPU", "Ray's own"),
        (ExtraWorkers("a", ray_resources={"a": 0}), "rayResources.a", "a whole number of at least 1"),
        (ExtraWorkers("a", node_selector={"a": "x y"}), "nodeSelector.a", "label value"),
        (ExtraWorkers("a", tolerations=(Toleration(""),)), "tolerations[0].key", "taint key"),
    ],
)
def test_rejected(group: ExtraWorkers, where: str, words: str) -> None:
    [found] = validate(dataclasses.replace(GOOD, worker_groups=(group,)))
    assert found.where == f"spec.workerGroups[0].{where}"
    assert words in found.message


def test_names_are_unique_and_gpus_are_for_services_on_gpus() -> None:
    cpu: dict[str, Any] = {"accelerator": Accelerator("cpu")}
    groups = (ExtraWorkers("gpu"), ExtraWorkers("gpu", gpus=1))
    assert [problem.where for problem in validate(dataclasses.replace(GOOD, worker_groups=groups, **cpu))] == [
        "spec.workerGroups[1].name",
        "spec.workerGroups[1].gpus",
    ]

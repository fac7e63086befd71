"""Notes of a plan about options that limit each other."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.spec.gateway import Gateway
from rayllm_ctl.model.spec.operations import Availability, PodDisruptionBudget
from rayllm_ctl.model.spec.ray_options import FaultTolerance, RayOptions
from rayllm_ctl.model.spec.serve_options import Serve
from rayllm_ctl.model.spec.service import ExtraWorkers, LLMService, Model, Replicas
from tests.render.plans import H100, plan

REDIS = RayOptions(fault_tolerance=FaultTolerance("redis:6379"))


@pytest.mark.parametrize(
    ("ray", "serve", "noted"),
    [(REDIS, Serve("HeadOnly"), True), (REDIS, Serve(), False), (RayOptions(), Serve("HeadOnly"), False)],
)
def test_fault_tolerance_keeps_no_request_that_goes_through_the_head(
    ray: RayOptions, serve: Serve, noted: bool
) -> None:
    notes = plan(LLMService("q", Model("m"), ray=ray, serve=serve), H100).notes
    assert any("all of them go through the head" in note for note in notes) is noted


@pytest.mark.parametrize(
    ("service", "noted"),
    [
        (LLMService("q", Model("m"), gateway=Gateway()), False),
        (LLMService("q", Model("m"), replicas=Replicas(2, 2)), False),
        (LLMService("q", Model("m"), mode="raycluster", replicas=Replicas(2, 2)), False),
        (LLMService("q", Model("m"), availability=Availability(PodDisruptionBudget(1))), True),
        (LLMService("q", Model("m"), availability=Availability(PodDisruptionBudget(4))), True),
        (
            LLMService(
                "q",
                Model("m"),
                availability=Availability(PodDisruptionBudget(4)),
                worker_groups=(ExtraWorkers("more", 0, 4),),
            ),
            False,
        ),
    ],
)
def test_a_budget_is_held_against_the_workers_of_all_groups(service: LLMService, noted: bool) -> None:
    notes = plan(service, H100).notes
    assert any("can never be drained" in note for note in notes) is noted

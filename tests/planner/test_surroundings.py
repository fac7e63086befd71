"""Notes of a plan about options that limit each other."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.rayoptions import FaultTolerance, RayOptions
from rayllm_ctl.model.serveoptions import Serve
from rayllm_ctl.model.service import LLMService, Model
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

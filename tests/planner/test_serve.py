"""Requests in flight that a replica should have."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.plan import EngineSettings
from rayllm_ctl.model.service import Replicas
from rayllm_ctl.planner.serve import target_ongoing_requests


@pytest.mark.parametrize(
    ("wanted", "capacity", "target"),
    [(None, None, 512), (None, 84.0, 42), (None, 0.5, 1), (None, 5000.0, 512), (7, 84.0, 7)],
)
def test_half_of_what_is_batched_and_held(wanted: int | None, capacity: float | None, target: int) -> None:
    engine = EngineSettings("0.29.0", 131072, 1024, 8192, "bfloat16")
    assert target_ongoing_requests(Replicas(target_ongoing_requests=wanted), engine, capacity) == target

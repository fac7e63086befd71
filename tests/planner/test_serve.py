"""How a service scales: requests in flight that a replica should have, and the steps of Ray Serve's autoscaler."""

from __future__ import annotations

import pytest

from rayllm_ctl.model.plan.deployment import Autoscaling
from rayllm_ctl.model.plan.plan import EngineSettings
from rayllm_ctl.model.spec.service import LLMService, Model, Replicas
from rayllm_ctl.planner.deployment.serve import target_ongoing_requests
from tests.render.plans import H100, plan


@pytest.mark.parametrize(
    ("wanted", "capacity", "target"),
    [(None, None, 512), (None, 84.0, 42), (None, 0.5, 1), (None, 5000.0, 512), (7, 84.0, 7)],
)
def test_half_of_what_is_batched_and_held(wanted: int | None, capacity: float | None, target: int) -> None:
    engine = EngineSettings("0.29.0", 131072, 1024, 8192, "bfloat16")
    assert target_ongoing_requests(Replicas(target_ongoing_requests=wanted), engine, capacity) == target


def scaling(replicas: Replicas) -> tuple[Autoscaling, Autoscaling]:
    """How the engine and the ingress of a service scale."""
    found = plan(LLMService("q", Model("m"), replicas=replicas), H100).deployment
    assert found is not None
    assert found.serve is not None
    return found.serve.autoscaling, found.serve.ingress_autoscaling


@pytest.mark.parametrize(
    ("replicas", "engine", "ingress"),
    [(Replicas(0, 4, initial=3), 3, 1), (Replicas(2, 4, initial=3), 3, 2), (Replicas(0, 4, initial=0), 0, 0),
     (Replicas(0, 4), None, None)],
)  # fmt: skip
def test_an_ingress_starts_with_the_first_replicas(replicas: Replicas, engine: int | None, ingress: int | None) -> None:
    assert tuple(found.initial_replicas for found in scaling(replicas)) == (engine, ingress)


def test_the_window_holds_several_reports() -> None:
    assert scaling(Replicas(metrics_interval=30.0))[0].look_back_period == 60
    assert scaling(Replicas(metrics_interval=5.0))[0].look_back_period == 15
    assert scaling(Replicas(metrics_interval=5.0, look_back_period=6.0))[0].look_back_period == 6

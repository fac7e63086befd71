"""What keeps a service answering while its pods are moved."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.model.spec.operations import Availability, PodDisruptionBudget
from rayllm_ctl.model.spec.pod_options import EnvironmentVariable, PodOptions, Pods
from rayllm_ctl.model.spec.serve_options import HTTPOptions, Serve
from rayllm_ctl.model.spec.service import Replicas
from tests.render.plans import H100, plan
from tests.render.test_raycluster import TWO_PODS
from tests.render.test_render import GPU, rendered, worker_group

DRAIN = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"


def deployment(**changes: Any) -> Any:
    service = dataclasses.replace(GPU, **changes)
    return plan(service, H100).deployment


def drain(deployed: Any) -> tuple[str | None, int | None, int]:
    """Ray's limit and the pod's grace period, and the seconds that a replica has to finish its requests."""
    (group,) = deployed.worker_groups
    given = next((one.value for one in group.pod.env if one.name == DRAIN), None)
    return given, group.pod.grace_period, deployed.serve.graceful_shutdown_timeout


def test_pods_wait_longer_than_replicas_and_those_as_long_as_a_request_may_take() -> None:
    assert drain(deployment()) == ("130", 140, 120)
    assert drain(deployment(serve=Serve(http=HTTPOptions(request_timeout=599.5)))) == ("610", 620, 600)
    own = Pods(worker=PodOptions(env=(EnvironmentVariable(DRAIN, "300"),)))
    assert drain(deployment(pods=own)) == ("300", 310, 120)


def test_the_head_is_not_drained() -> None:
    head = rendered(plan(GPU, H100))["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    assert "terminationGracePeriodSeconds" not in head
    assert DRAIN not in str(head)


@pytest.mark.parametrize(
    ("low", "budget", "head_serves"), [(0, None, True), (1, None, True), (2, 1, False), (4, 3, False)]
)
def test_with_two_replicas_one_may_be_evicted_and_the_head_is_no_address(
    low: int, budget: int | None, head_serves: bool
) -> None:
    deployed = deployment(replicas=Replicas(low, 4))
    found = deployed.pod_disruption_budget
    assert (found and found.min_available, deployed.head_serves) == (budget, head_serves)


def test_a_replica_of_several_pods_is_one_of_them() -> None:
    for mode in ("rayservice", "raycluster"):
        found = []
        for replicas in (Replicas(2, 2), Replicas(1, 1)):
            service = dataclasses.replace(GPU, replicas=replicas, mode=mode)
            made = plan(service, H100, tensor=8, pipeline=2, pods=TWO_PODS).deployment
            assert made is not None
            found.append(made.pod_disruption_budget)
        assert found == [PodDisruptionBudget(2), None], mode


def test_what_the_spec_says_counts() -> None:
    own = deployment(replicas=Replicas(3, 3), availability=Availability(PodDisruptionBudget(1)))
    assert own.pod_disruption_budget.min_available == 1
    given = ({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},)
    spread = deployment(pods=Pods(worker=PodOptions(topology_spread_constraints=given)))
    assert spread.worker.pod.topology_spread_constraints == given


def test_workers_are_spread_over_nodes_whatever_their_number() -> None:
    """Or another number would start a second RayCluster."""
    one, many = (
        worker_group(rendered(plan(dataclasses.replace(GPU, replicas=replicas), H100)))["template"]["spec"]
        for replicas in (Replicas(1, 1), Replicas(3, 4))
    )
    assert one == many
    (constraint,) = one["topologySpreadConstraints"]
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway", "one node may have to hold them all"
    assert constraint["matchLabelKeys"] == ["ray.io/cluster", "ray.io/group"]

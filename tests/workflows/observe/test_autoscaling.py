"""What `watch` says of autoscaling: only what Serve's autoscaler did, and the load it saw."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.workflows.observe.autoscaling import AutoscalingWatch
from tests.cluster.fakeapi import FakeAPI

METRICS = """# HELP ray_serve_autoscaling_total_requests Total number of requests as seen by the autoscaler.
# TYPE ray_serve_autoscaling_total_requests gauge
ray_serve_autoscaling_total_requests{application="app",deployment="Other",SessionName="s"} 1.0
ray_serve_autoscaling_total_requests{application="app",deployment="LLMServer:tiny",SessionName="s"} 8.83502
"""


def seen(target: int, trigger: str = "AUTOSCALING", **scaling: Any) -> Snapshot:
    config = {"autoscaling_config": {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 2.0, **scaling}}
    state = {"target_num_replicas": target, "status_trigger": trigger, "deployment_config": config}
    fixed = {"target_num_replicas": target, "status_trigger": trigger, "deployment_config": {"num_replicas": target}}
    deployments = {"LLMServer:tiny": state, "Fixed": fixed}
    answer = {"applications": {"app": {"deployments": deployments}}}
    return Snapshot(
        (), datetime(2026, 11, 25, tzinfo=UTC), {"tiny-bcdfg": answer, "tiny-other": {"error": "no answer"}}
    )


def test_a_changed_target_is_said_with_the_load_and_the_trigger(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/services/tiny-bcdfg-head-svc:metrics/proxy/metrics$", (200, METRICS.encode()))
    autoscaling = AutoscalingWatch(cluster, "llm")
    assert list(autoscaling.notes(seen(1))) == []
    assert list(autoscaling.notes(seen(1))) == []
    assert api.requests == [], "nothing is asked while nothing changes"
    (note,) = autoscaling.notes(seen(3))
    assert note.message == (
        "autoscaling: LLMServer:tiny 1 → 3 replicas: 8.8 ongoing requests, target 2 per replica, 1 to 4 replicas, "
        "trigger AUTOSCALING"
    )


def test_without_the_metrics_the_rest_is_said(api: FakeAPI, cluster: Cluster) -> None:
    autoscaling = AutoscalingWatch(cluster, "llm")
    list(autoscaling.notes(seen(3)))
    (note,) = autoscaling.notes(seen(1, "DOWNSCALE_COMPLETED"))
    assert note.message.startswith("autoscaling: LLMServer:tiny 3 → 1 replicas: number of ongoing requests unknown, ")
    assert len(api.requests) == 1


def test_a_change_of_the_configuration_is_no_autoscaling(cluster: Cluster) -> None:
    autoscaling = AutoscalingWatch(cluster, "llm")
    list(autoscaling.notes(seen(1)))
    assert list(autoscaling.notes(seen(2, "CONFIG_UPDATE_STARTED"))) == []
    assert list(autoscaling.notes(seen(2, "CONFIG_UPDATE_COMPLETED"))) == []

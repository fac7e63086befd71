"""What Ray exports of pods beside vLLM's metrics."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.observed.ray_metrics import PodGPUs, pod_gpus, report_interval, requests_in_replicas
from tests.model.metrics import ASKED, UNASKED, recorded

MIB = 2**20


def test_the_gpus_of_a_pod() -> None:
    # 93 and 87 %; 72,934 and 72,802 MiB of 81,559 each.
    assert pod_gpus(recorded("ray-busy")) == PodGPUs(2, 0.9, 145_736 * MIB, 163_118 * MIB)
    assert pod_gpus(recorded("vllm")) is None
    assert pod_gpus("") is None


def test_requests_in_replicas() -> None:
    assert requests_in_replicas(recorded("ray-busy")) == {ASKED: 1, UNASKED: 0}
    assert requests_in_replicas(recorded("ray-idle")) == {ASKED: 0, UNASKED: 0}


ENVIRONMENT = [{"name": "RAY_metrics_report_interval_ms", "value": "2500"}]


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"headGroupSpec": {"rayStartParams": {}}}, 10.0),
        ({"workerGroupSpecs": [{"template": {"spec": {"containers": [{"env": ENVIRONMENT}]}}}]}, 2.5),
        ({"headGroupSpec": {"rayStartParams": {"system-config": "'{\"metrics_report_interval_ms\": 30000}'"}}}, 30.0),
        ({"headGroupSpec": {"rayStartParams": {"system-config": '{"metrics_report_interval_ms":100}'}}}, 1.0),
    ],
    ids=["default", "environment", "system-config", "shorter than Ray takes"],
)
def test_the_report_interval(spec: dict[str, Any], seconds: float) -> None:
    assert report_interval({"spec": spec}) == seconds

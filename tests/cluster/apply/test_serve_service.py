"""The Service of a live RayService follows spec.serveService."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.apply.serve_service import propagate_service
from rayllm_ctl.kinds import RAY_SERVICE
from tests.cluster.fakeapi import FakeAPI

BALANCED = {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]}}


def propagate(cluster: Cluster, **spec: Any) -> list[str]:
    applied = {"metadata": {"name": "q", "namespace": "llm"}, "spec": spec}
    return [f"{done.name} {done.action}" for done in propagate_service(cluster, RAY_SERVICE, applied)]


@pytest.fixture
def service(api: FakeAPI) -> None:
    api.put(kind="Service", metadata={"name": "q-serve-svc", "annotations": {"mine": "1"}}, spec={"type": "ClusterIP"})


@pytest.mark.usefixtures("service")
def test_there_and_back(api: FakeAPI, cluster: Cluster) -> None:
    options = {**BALANCED, "metadata": {"annotations": {"a": "b"}}}
    assert propagate(cluster, serveService=options) == ["q-serve-svc configured"]
    stored = api.stored("Service", "q-serve-svc")
    assert stored["spec"] == BALANCED["spec"]
    assert stored["metadata"]["annotations"] == {"mine": "1", "a": "b"}
    assert propagate(cluster, serveService=options) == []
    # What KubeRay once wrote into the field stays when rayllm-ctl no longer applies it.
    assert propagate(cluster, serveService={"status": {"loadBalancer": {}}}) == ["q-serve-svc configured"]
    assert api.stored("Service", "q-serve-svc")["spec"] == {"type": "ClusterIP"}


def test_kuberay_makes_the_service_later(cluster: Cluster) -> None:
    assert propagate(cluster, serveService=BALANCED) == []


@pytest.mark.usefixtures("service")
def test_who_may_not_read_services_is_not_stopped_without_need(api: FakeAPI, cluster: Cluster) -> None:
    api.granted = set()
    assert propagate(cluster) == []
    with pytest.raises(ForbiddenError):
        propagate(cluster, serveService=BALANCED)

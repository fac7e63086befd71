from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS, workload
from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import Right, Rights


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_kind_is_complete(name: str) -> None:
    found = WORKLOADS[name]
    for rights in found.rights.values():
        assert rights.needed
        assert not set(rights.needed) & set(rights.display)
        assert all(kind(right.kind) for right in (*rights.needed, *rights.display))


def test_the_workload_among_manifests() -> None:
    service = {"kind": "RayService"}
    assert workload([{"kind": "ConfigMap"}, service]) == (RAY_SERVICE, service)
    with pytest.raises(ValueError, match="no manifest is one of RayService"):
        workload([{"kind": "ConfigMap"}])


def test_rights_add_up_and_what_is_needed_is_not_for_display() -> None:
    pods, nodes = Right("list", "Pod"), Right("list", "Node")
    assert Rights((pods,), (nodes,)) | Rights((nodes,), (pods,)) == Rights((pods, nodes))


def test_ray_clusters_of_a_service() -> None:
    status = {"activeServiceStatus": {"rayClusterName": "a"}, "pendingServiceStatus": {}}
    assert RAY_SERVICE.clusters_of({"status": status}) == ("a",)
    assert RAY_SERVICE.clusters_of({}) == ()


def test_a_rendered_serve_configuration_says_how_many_replicas_a_start_has() -> None:
    """Also where a replica takes several pods. One of the user's own says so only once Serve has read it."""
    config = """
        applications:
        - name: chat
          import_path: ray.serve.llm:build_openai_app
          args: {llm_configs: [{model_loading_config: {model_id: org/chat}}]}
          deployments:
          - {name: "LLMServer:org--chat", autoscaling_config: {min_replicas: 1, initial_replicas: 2, max_replicas: 3}}
    """
    service = {
        "kind": "RayService",
        "metadata": {"name": "chat", "namespace": "llm", "generation": 2, "creationTimestamp": "2026-03-01T12:00:00Z"},
        "spec": {"serveConfigV2": config},
        "status": {"observedGeneration": 2, "pendingServiceStatus": {"rayClusterName": "chat-bcdfg"}},
    }
    group = {"groupName": "gpu", "replicas": 8, "minReplicas": 8, "maxReplicas": 12, "template": {}}
    cluster = {
        "kind": "RayCluster",
        "metadata": {"name": "chat-bcdfg", "namespace": "llm", "generation": 1},
        "spec": {"workerGroupSpecs": [group]},
        "status": {"observedGeneration": 1},
    }

    def counts(text: str) -> tuple[int, int, int]:
        now = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
        objects = ({**service, "spec": {"serveConfigV2": text}}, cluster)
        health = RAY_SERVICE.diagnose(Snapshot(objects, now), "chat", "llm")
        return health.replicas_running, health.replicas_wanted, health.replicas_max

    assert counts(config) == (0, 2, 3)
    assert counts("applications: [{import_path: app:main}]") == (0, 8, 12)
    assert counts("applications: [") == (0, 8, 12)

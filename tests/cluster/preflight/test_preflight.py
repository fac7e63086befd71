from __future__ import annotations

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.preflight.preflight import check_rights, preflight
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.workload import Right, Rights
from tests.cluster.fakeapi import FakeAPI, Grant

RIGHTS = Rights(
    (Right("get", "RayService"), Right("create", "RayService"), Right("watch", "Pod")),
    (Right("list", "Event"), Right("get", "Service", "proxy")),
)


def checks(cluster: Cluster, namespace: str = "llm") -> list[Checked]:
    found = preflight(cluster, RAY_SERVICE.name, "tiny", namespace, RIGHTS.needed)
    return [*found.checks, check_rights(found.permissions, RIGHTS)]


ALL: set[Grant] = {
    ("get", "rayservices.ray.io", False), ("create", "rayservices.ray.io", False), ("watch", "pods", False),
    ("list", "events", False), ("get", "services/proxy", False), ("list", "deployments.apps", True),
    ("get", "namespaces", True),
}  # fmt: skip


def allow(api: FakeAPI, *denied: tuple[str, str]) -> None:
    """Grant everything but `denied` pairs of verb and resource."""
    api.granted = {grant for grant in ALL if grant[:2] not in denied}


def test_all_is_well(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    containers = [{"name": "op", "image": "operator:1.6.2"}]
    api.put(
        kind="Deployment",
        metadata={"name": "op", "labels": {"app.kubernetes.io/name": "kuberay-operator"}},
        spec={"template": {"spec": {"containers": containers}}},
    )
    assert checks(cluster) == [
        Checked("KubeRay", True, "1.6.2"),
        Checked("namespace", True, "llm"),
        Checked("permissions", True, ""),
    ]


def test_an_operator_that_cannot_be_seen_is_a_warning(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    assert checks(cluster)[0].ok is None


def test_kuberay_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService"}
    with pytest.raises(UserError, match="KubeRay is not installed"):
        checks(cluster)


def test_the_namespace_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    with pytest.raises(UserError, match="namespace nowhere does not exist") as caught:
        checks(cluster, "nowhere")
    assert caught.value.hints[0] == "kubectl create namespace nowhere"


def test_the_namespace_is_on_its_way_out(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    api.answer("GET", "/namespaces/llm$", (200, {"status": {"phase": "Terminating"}}))
    with pytest.raises(UserError, match="is being deleted"):
        checks(cluster)


def test_rights_that_are_needed_and_missing_are_all_named(api: FakeAPI, cluster: Cluster) -> None:
    allow(api, ("create", "rayservices.ray.io"), ("watch", "pods"), ("list", "events"))
    with pytest.raises(ClusterError) as caught:
        checks(cluster)
    assert (
        caught.value.message
        == 'user "alice@example.com" is not permitted to create rayservices.ray.io, watch pods in namespace llm'
    )
    assert caught.value.hints[0] == "kubectl auth can-i create rayservices.ray.io -n llm"
    assert caught.value.exit_code == 5


def test_rights_that_are_only_useful_are_a_warning(api: FakeAPI, cluster: Cluster) -> None:
    allow(api, ("get", "services/proxy"), ("list", "events"))
    assert checks(cluster)[-1] == Checked("permissions", None, "not permitted to list events, get services/proxy")


def test_without_the_right_to_get_services_the_rights_are_named_in_full(api: FakeAPI, cluster: Cluster) -> None:
    allow(api, ("get", "rayservices.ray.io"))
    with pytest.raises(ClusterError, match="not permitted to get rayservices"):
        checks(cluster)

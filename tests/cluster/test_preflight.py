from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.preflight import preflight
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.events import Checked
from tests.cluster.fakeapi import FakeAPI, Request, status


def allow(api: FakeAPI, *denied: tuple[str, str]) -> None:
    """Answer access reviews: everything but `denied` pairs of verb and resource (or resource/subresource)."""

    def review(request: Request) -> tuple[int, Any]:
        asked = request.json()["spec"]["resourceAttributes"]
        resource = "/".join(part for part in (asked["resource"], asked["subresource"]) if part)
        assert asked["namespace"] == "llm"
        return 201, {"status": {"allowed": (asked["verb"], resource) not in denied}}

    api.answer("POST", "selfsubjectaccessreviews", review)


def test_all_is_well(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    containers = [{"name": "op", "image": "operator:1.6.2"}]
    api.put(
        kind="Deployment",
        metadata={"name": "op", "labels": {"app.kubernetes.io/name": "kuberay-operator"}},
        spec={"template": {"spec": {"containers": containers}}},
    )
    assert list(preflight(cluster, "llm")) == [
        Checked("KubeRay", True, "1.6.2"),
        Checked("namespace", True, "llm"),
        Checked("permissions", True, ""),
    ]


def test_an_operator_that_cannot_be_seen_is_a_warning(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    assert next(iter(preflight(cluster, "llm"))).ok is None


def test_kuberay_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService"}
    with pytest.raises(UserError, match="KubeRay is not installed"):
        list(preflight(cluster, "llm"))


def test_the_namespace_is_missing(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    with pytest.raises(UserError, match="namespace nowhere does not exist") as caught:
        list(preflight(cluster, "nowhere"))
    assert caught.value.hints[0] == "kubectl create namespace nowhere"


def test_the_namespace_is_on_its_way_out(api: FakeAPI, cluster: Cluster) -> None:
    allow(api)
    api.answer("GET", "/namespaces/llm$", (200, {"status": {"phase": "Terminating"}}))
    with pytest.raises(UserError, match="is being deleted"):
        list(preflight(cluster, "llm"))


def test_rights_that_are_needed_and_missing_are_all_named(api: FakeAPI, cluster: Cluster) -> None:
    allow(api, ("create", "rayservices"), ("watch", "pods"), ("list", "events"))
    with pytest.raises(ClusterError) as caught:
        list(preflight(cluster, "llm"))
    assert caught.value.message == "user 'alice' may not create rayservices.ray.io, watch pods in namespace llm"
    assert caught.value.hints[0] == "kubectl auth can-i create rayservices.ray.io -n llm"
    assert caught.value.exit_code == 5


def test_rights_that_are_only_useful_are_a_warning(api: FakeAPI, cluster: Cluster) -> None:
    allow(api, ("get", "services/proxy"), ("list", "events"))
    assert list(preflight(cluster, "llm"))[-1] == Checked(
        "permissions", None, "not allowed: list events, get services/proxy"
    )


def test_without_the_right_to_list_services_the_rights_are_named_in_full(api: FakeAPI, cluster: Cluster) -> None:
    text = 'cannot list resource "rayservices" in API group "ray.io" in the namespace "llm"'
    api.answer("GET", "rayservices", status(403, text, "Forbidden"))
    allow(api, ("get", "rayservices"))
    with pytest.raises(ClusterError, match="may not get rayservices"):
        list(preflight(cluster, "llm"))

from __future__ import annotations

import copy
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.errors import ConflictError, FieldConflictError, UserError
from tests.cluster.fakeapi import FakeAPI, status


def manifest(
    kind: str = "RayService", api_version: str = "ray.io/v1", name: str = "tiny", **more: Any
) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


SERVICE = manifest(spec={"serveConfigV2": "a: 1\n", "rayClusterConfig": {"rayVersion": "2.60.0"}})


def actions(cluster: Cluster, *manifests: dict[str, Any], **options: Any) -> list[str]:
    return [
        f"{done.kind} {done.action}{' (dry run)' if done.dry_run else ''}"
        for done, _ in apply(cluster, manifests, **options)
    ]


def test_created_then_unchanged_then_configured(api: FakeAPI, cluster: Cluster) -> None:
    assert actions(cluster, SERVICE) == ["RayService created"]
    generation = api.stored("RayService", "tiny")["metadata"]["generation"]
    assert actions(cluster, SERVICE) == ["RayService unchanged"]
    assert api.stored("RayService", "tiny")["metadata"]["generation"] == generation
    changed = copy.deepcopy(SERVICE)
    changed["spec"]["serveConfigV2"] = "a: 2\n"
    assert actions(cluster, changed) == ["RayService configured"]


def test_a_status_written_meanwhile_is_no_change_of_ours(api: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, SERVICE)
    stored = api.stored("RayService", "tiny")

    def controller(_request: object) -> None:
        api.put(**{**stored, "status": {"observedGeneration": 1}})

    api.answer("PATCH", "rayservices", controller)
    assert actions(cluster, SERVICE) == ["RayService unchanged"]


def test_what_is_sent(api: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, SERVICE)
    sent = api.requests[-1]
    assert sent.path == "/apis/ray.io/v1/namespaces/llm/rayservices/tiny"
    assert sent.query == {"fieldManager": "rayllm-ctl", "fieldValidation": "Strict", "force": "false"}
    assert sent.headers["Content-Type"] == "application/apply-patch+yaml"
    assert sent.json() == SERVICE


def test_dry_run_writes_nothing(api: FakeAPI, cluster: Cluster) -> None:
    assert actions(cluster, SERVICE, dry_run="server") == ["RayService created (dry run)"]
    with pytest.raises(KeyError):
        api.stored("RayService", "tiny")
    actions(cluster, SERVICE)
    assert actions(cluster, SERVICE, dry_run="server") == ["RayService unchanged (dry run)"]


def test_what_others_need_goes_first(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/namespaces/new", status(404, "not found", "NotFound", kind="namespaces"))
    api.namespaces.add("new")
    order = actions(
        cluster,
        SERVICE,
        manifest("ConfigMap", "v1"),
        manifest("RoleBinding", "rbac.authorization.k8s.io/v1"),
        manifest("Namespace", "v1", "new"),
        manifest("Secret", "v1"),
        manifest("ServiceAccount", "v1"),
    )
    assert [line.split()[0] for line in order] == [
        "Namespace",
        "RoleBinding",
        "ServiceAccount",
        "ConfigMap",
        "Secret",
        "RayService",
    ]


def test_a_conflict_names_each_field_its_manager_and_the_remedies(api: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, SERVICE, field_manager="argocd")
    changed = copy.deepcopy(SERVICE)
    changed["spec"] = {"serveConfigV2": "a: 2\n", "rayClusterConfig": {"rayVersion": "2.61.0"}}
    with pytest.raises(ConflictError) as caught:
        actions(cluster, changed)
    assert caught.value.exit_code == 4
    assert "spec.serveConfigV2  is owned by argocd" in caught.value.message
    assert "spec.rayClusterConfig.rayVersion  is owned by argocd" in caught.value.message
    assert isinstance(caught.value, FieldConflictError)
    assert len(caught.value.hints) == 2
    assert api.stored("RayService", "tiny")["spec"] == SERVICE["spec"]


def test_conflicts_are_forced_only_by_the_users_word(api: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, SERVICE, field_manager="argocd")
    changed = copy.deepcopy(SERVICE)
    changed["spec"]["serveConfigV2"] = "a: 2\n"
    assert actions(cluster, changed, force_conflicts=True) == ["RayService configured"]
    assert api.stored("RayService", "tiny")["spec"]["serveConfigV2"] == "a: 2\n"


def group(cpu: str = "1000m", replicas: int = 2, **more: Any) -> dict[str, Any]:
    box = {"name": "ray", "resources": {"limits": {"cpu": cpu, "memory": "2048Mi"}}}
    return {"groupName": "w", "maxReplicas": replicas, "template": {"spec": {"containers": [box]}}, **more}


def with_group(**changes: Any) -> dict[str, Any]:
    return manifest(spec={"rayClusterConfig": {"workerGroupSpecs": [group(**changes)]}})


@pytest.fixture
def written_back(api: FakeAPI, cluster: Cluster) -> FakeAPI:
    """A RayService that we applied and KubeRay then wrote back in the form of its Go types."""
    actions(cluster, with_group())
    canonical = group(cpu="1", scaleStrategy={})
    canonical["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "2Gi"
    canonical["template"]["metadata"] = {}
    api.update("kuberay-operator", "RayService", "tiny", spec={"rayClusterConfig": {"workerGroupSpecs": [canonical]}})
    return api


def test_somebody_else_beside_kuberay_is_a_conflict(written_back: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, manifest(spec={"serveConfigV2": "a: 1\n"}), field_manager="argocd")
    both = with_group()
    both["spec"]["serveConfigV2"] = "a: 2\n"
    with pytest.raises(ConflictError, match="argocd"):
        actions(cluster, both)


def test_what_the_operator_owns_of_other_kinds_is_a_conflict(api: FakeAPI, cluster: Cluster) -> None:
    actions(cluster, manifest("ConfigMap", "v1", data={"a": "1"}))
    api.update("kuberay-operator", "ConfigMap", "tiny", data={"a": "2"})
    with pytest.raises(ConflictError, match="kuberay-operator"):
        actions(cluster, manifest("ConfigMap", "v1", data={"a": "1"}))


def test_an_object_changed_in_between(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("PATCH", "rayservices", status(409, "the object has been modified", "Conflict"))
    with pytest.raises(ConflictError, match="changed in the meantime"):
        actions(cluster, SERVICE)


@pytest.mark.parametrize(
    ("code", "message", "fields"),
    [
        (400, 'strict decoding error: unknown field "spec.a", unknown field "spec.b"', "spec.a, spec.b"),
        (
            500,
            "failed to create typed patch object (/t; ray.io/v1, Kind=RayService): "
            '.spec.containers[name="ray-head"].imag: field not declared in schema',
            'spec.containers[name="ray-head"].imag',
        ),
    ],
)
def test_unknown_fields_are_named(api: FakeAPI, cluster: Cluster, code: int, message: str, fields: str) -> None:
    api.answer("PATCH", "rayservices", status(code, message, "BadRequest"))
    with pytest.raises(UserError) as caught:
        actions(cluster, SERVICE)
    assert caught.value.message.endswith(f"has unknown fields: {fields}")
    assert caught.value.exit_code == 1


def test_invalid_values_are_listed_one_by_one(api: FakeAPI, cluster: Cluster) -> None:
    causes = [{"field": "spec.a", "message": "Required value"}, {"field": "spec.b", "message": "Invalid value: 0"}]
    api.answer("PATCH", "rayservices", status(422, "RayService is invalid: [...]", "Invalid", causes=causes))
    with pytest.raises(UserError) as caught:
        actions(cluster, SERVICE)
    assert caught.value.message == (
        "RayService llm/tiny is not valid:\n  spec.a: Required value\n  spec.b: Invalid value: 0"
    )


def test_kuberay_is_not_installed(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService"}
    with pytest.raises(UserError, match="KubeRay is not installed") as caught:
        actions(cluster, SERVICE)
    assert caught.value.hints[0].startswith("helm install kuberay-operator")


def test_the_namespace_is_missing(cluster: Cluster) -> None:
    elsewhere = {**SERVICE, "metadata": {"name": "tiny", "namespace": "nowhere"}}
    with pytest.raises(UserError, match="namespace nowhere does not exist") as caught:
        actions(cluster, elsewhere)
    assert caught.value.hints[0] == "kubectl create namespace nowhere"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (manifest(kind="RayServic"), "RayServic of ray.io/v1 is not a kind"),
        (manifest(api_version="ray.io/v1alpha1"), "RayService of ray.io/v1alpha1 is not a kind"),
        ({"kind": "RayService"}, "no apiVersion or no kind"),
        ({**SERVICE, "metadata": {}}, "no metadata.name"),
    ],
)
def test_manifests_that_cannot_be_applied(api: FakeAPI, cluster: Cluster, wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        actions(cluster, wrong)
    assert api.requests == []


def test_the_words_about_a_secret_are_withheld(api: FakeAPI, cluster: Cluster) -> None:
    causes = [{"field": "data.token", "message": 'Invalid value: "hunter2"'}]
    api.answer("PATCH", "secrets", status(422, 'Secret is invalid: "hunter2"', "Invalid", causes=causes))
    with pytest.raises(UserError) as caught:
        actions(cluster, manifest("Secret", "v1", data={"token": "hunter2"}))
    assert "hunter2" not in caught.value.message

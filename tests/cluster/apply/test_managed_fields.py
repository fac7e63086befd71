"""What was applied of an object, by its managed fields, as the API server writes them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.cluster.apply.managed_fields import applied_manifest, managers, was_applied

PORTS: dict[str, Any] = {
    'k:{"containerPort":6379,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:name": {}},
    'k:{"containerPort":8265,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
}
OURS = {
    "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {".": {}, 'v:"ours"': {}}},
    "f:spec": {"f:groups": {}, "f:ports": PORTS},
}
ITEM: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {
        "name": "tiny",
        "namespace": "llm",
        "labels": {"app": "a", "team": "theirs"},
        "finalizers": ["theirs", "ours"],
        "managedFields": [
            {"manager": "rayllm-ctl", "operation": "Apply", "fieldsV1": OURS},
            {"manager": "rayllm-ctl-restart", "operation": "Apply", "fieldsV1": {"f:spec": {"f:other": {}}}},
            {"manager": "kuberay-operator", "operation": "Update", "fieldsV1": {"f:status": {}}},
        ],
    },
    "spec": {
        "groups": [{"name": "cpu", "scale": 1, "defaulted": True}],
        "ports": [
            {"containerPort": 6379, "name": "gcs", "protocol": "TCP"},
            {"containerPort": 8265, "protocol": "TCP"},
            {"containerPort": 1, "protocol": "UDP"},
        ],
        "other": 1,
    },
}
APPLIED = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "tiny", "namespace": "llm", "labels": {"app": "a"}, "finalizers": ["ours"]},
    "spec": {
        "groups": [{"name": "cpu", "scale": 1, "defaulted": True}],
        "ports": [{"containerPort": 6379, "name": "gcs"}, {"containerPort": 8265}],
    },
}


def test_the_applied_fields_are_those_of_our_manager() -> None:
    assert applied_manifest(ITEM) == APPLIED
    assert managers(ITEM, "spec") == []
    assert managers(ITEM, "status") == ["kuberay-operator"]
    assert applied_manifest({**ITEM, "metadata": {"name": "tiny", "managedFields": []}}) is None


def test_a_recorded_manifest_is_what_was_applied_if_it_has_no_other_fields() -> None:
    item: dict[str, Any] = {**ITEM, "metadata": {**ITEM["metadata"], "finalizers": ["ours"]}}
    item["spec"] = {**ITEM["spec"], "ports": ITEM["spec"]["ports"][:2]}
    spec: dict[str, Any] = APPLIED["spec"]  # type: ignore[assignment]
    recorded = {**APPLIED, "spec": {**spec, "groups": [{"name": "cpu", "scale": 1}]}}
    assert was_applied(item, recorded)
    assert not was_applied(item, {**recorded, "spec": {**spec, "groups": [{"name": "cpu", "scale": 2}]}})
    assert not was_applied(item, {**recorded, "spec": {"ports": spec["ports"]}}), "we applied groups as well"
    assert not was_applied(item, {**recorded, "spec": {**spec, "new": 1}})

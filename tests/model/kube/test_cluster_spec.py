"""The spec of a RayCluster in the objects that KubeRay makes one for."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.kube.cluster_spec import cluster_path, cluster_spec, with_cluster_fields, with_cluster_spec

CLUSTER = {"rayVersion": "2.60.0"}
ITEMS: list[dict[str, Any]] = [
    {"kind": "RayService", "spec": {"serveConfigV2": "a: 1", "rayClusterConfig": CLUSTER}},
    {"kind": "RayJob", "spec": {"entrypoint": "python a.py", "rayClusterSpec": CLUSTER}},
    {"kind": "RayCluster", "spec": CLUSTER},
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item["kind"]))
def test_it_is_found_by_its_path_and_replaced(item: dict[str, Any]) -> None:
    at: Any = item
    for part in cluster_path(item["kind"]):
        at = at[part]
    assert at == cluster_spec(item) == CLUSTER
    changed = with_cluster_spec(item, {"rayVersion": "2.61.0"})
    assert cluster_spec(changed) == {"rayVersion": "2.61.0"}
    assert cluster_spec(item) == CLUSTER
    assert {key for key in changed["spec"] if key != "rayVersion"} == {
        key for key in item["spec"] if key != "rayVersion"
    }


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item["kind"]))
def test_a_part_of_the_object_with_some_of_its_fields(item: dict[str, Any]) -> None:
    part = with_cluster_fields(item["kind"], {"suspend": True})
    assert cluster_spec(part) == {"suspend": True}
    assert len(part["spec"]) == 1


@pytest.mark.parametrize("item", [{}, {"spec": None}, {"spec": {"rayClusterConfig": None}}, {"spec": {}}])
def test_an_object_without_one_has_an_empty_spec(item: dict[str, Any]) -> None:
    assert cluster_spec(item) == {}

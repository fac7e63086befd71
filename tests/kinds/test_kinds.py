from __future__ import annotations

import pytest

from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS, workload
from rayllm_ctl.model.apikinds import kind
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

"""spec.pods.*.podTemplate: what it changes, and what is said of one that cannot be applied."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.model.spec.service import ExtraWorkers
from rayllm_ctl.render import render
from rayllm_ctl.workflows.render.manifests import manifests
from tests.render.plans import H100, plan
from tests.render.test_goform import as_go_writes
from tests.render.test_render import GPU

SIDECAR = {
    "name": "logs",
    "image": "r/logs:1",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}


def planned(head: Any = None, worker: Any = None) -> Plan:
    pods = Pods(PodOptions(pod_template=head or {}), PodOptions(pod_template=worker or {}))
    return plan(dataclasses.replace(GPU, pods=pods, worker_groups=(ExtraWorkers("spot"),)), H100)


def templates(its_plan: Plan) -> list[dict[str, Any]]:
    """The pod templates of the head and of the groups of workers."""
    [manifest] = manifests(its_plan)
    cluster = manifest["spec"]["rayClusterConfig"]
    return [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_each_role_has_a_patch_of_its_own() -> None:
    plain = templates(planned())
    head, *workers = templates(planned(worker={"spec": {"containers": [SIDECAR], "hostname": "w"}}))
    assert head == plain[0]
    for worker, before in zip(workers, plain[1:], strict=True):
        assert worker["spec"]["containers"] == [*before["spec"]["containers"], {"resources": {}, **SIDECAR}]
        assert worker["spec"].pop("hostname") == "w"
    [changed, *_] = templates(planned(head={"metadata": {"labels": {"a": "b"}}}))
    assert changed == {**plain[0], "metadata": {"labels": {**plain[0]["metadata"]["labels"], "a": "b"}}}


def test_a_patch_is_merged_into_the_ray_container_and_null_removes() -> None:
    patch = {"spec": {"automountServiceAccountToken": None,
                      "containers": [{"name": "ray-worker", "resources": {"requests": {"cpu": "0.5"}}}]}}  # fmt: skip
    worker = templates(planned(worker=patch))[1]
    assert "automountServiceAccountToken" not in worker["spec"]
    [container] = worker["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "500m"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_kuberay_changes_nothing_when_it_writes_a_sidecar_back() -> None:
    [manifest] = render(planned(worker={"spec": {"containers": [SIDECAR], "initContainers": [SIDECAR]}}))
    assert as_go_writes(manifest) == manifest


def test_rendering_twice_changes_nothing() -> None:
    its_plan = planned(worker={"spec": {"containers": [SIDECAR]}})
    first = copy.deepcopy(render(its_plan))
    assert render(its_plan) == first


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.pods.worker.podTemplate.spec.containers[0]: requires name"),
        ({"spec": {"$patch": "drop"}}, 'spec.pods.worker.podTemplate.spec.$patch: "drop" is not supported'),
        ({"spec": {"hostNetwrk": True}}, "spec.pods.worker.podTemplate: RayService qwen: "),
        ({"spec": {"containers": [{"name": "logs"}]}}, "securityContext.allowPrivilegeEscalation: violates"),
    ],
)
def test_what_cannot_be_applied_is_reported_with_its_place(patch: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        manifests(planned(worker=patch))
    assert words in caught.value.message

"""`suspend` and `resume`, and what other commands say of a suspended service."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.kube import kuberay
from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI, Request, status

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip


@pytest.fixture(autouse=True)
def suspending(api: FakeAPI) -> None:
    """KubeRay deletes the pods of what is suspended, and starts them again."""
    start = api.applied

    def reconcile(item: dict[str, Any]) -> None:
        if item["kind"] not in ("RayService", "RayCluster") or not kuberay.is_suspended(item):
            start(item)
            return
        where = item["metadata"]["namespace"]
        for name in api.names("Pod"):
            if name.startswith("tiny"):
                api.remove("Pod", name, where)
        name = kuberay.RAY_CLUSTER
        own = (
            item if item["kind"] == name else api.stored(name, item["status"]["activeServiceStatus"]["rayClusterName"])
        )
        done = {"type": "RayClusterSuspended", "status": "True", "lastTransitionTime": "2026-11-25T00:00:00Z"}
        api.put(**{**own, "spec": {**own["spec"], "suspend": True}, "status": {**own["status"], "conditions": [done]}})

    api.applied = reconcile


@pytest.mark.parametrize("mode", ["rayservice", "raycluster"])
def test_a_suspended_service_has_no_pods_until_it_is_resumed(run: Run, api: FakeAPI, deploy: Deploy, mode: str) -> None:
    deploy(*TINY, "--kind", mode)
    result = run("suspend", "tiny")
    assert result.code == 0, str(result)
    assert f"{mode}/tiny configured" in result.err
    assert "no pod of tiny is left" in result.err
    assert "Suspended" in run("status", "tiny").out
    (written,) = [one for one in api.requests if "rayllm-ctl-suspend" in str(one.query) and "dryRun" not in one.query]
    assert list(written.json()["spec"]) == (["rayClusterConfig"] if mode == "rayservice" else ["suspend"])

    waited = run("wait", "tiny", "--for", "ready", "--timeout", "30s")
    assert (waited.code, "rayllm-ctl resume tiny -n llm" in waited.err) == (1, True), str(waited)

    resumed = run("resume", "tiny")
    assert resumed.code == 0, str(resumed)
    assert "ready       tiny after" in resumed.err
    again = run("resume", "tiny")
    assert (again.code, "is not suspended" in again.err) == (0, True), str(again)


def test_kuberay_too_old_to_suspend_a_ray_service_is_named(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    operator = api.stored("Deployment", kuberay.OPERATOR, "kuberay-system")
    operator["spec"]["template"]["spec"]["containers"][0]["image"] = "quay.io/kuberay/operator:v1.5.1"
    api.put(**operator)
    result = run("suspend", "tiny")
    assert result.code == 1, str(result)
    assert "KubeRay 1.5.1 cannot suspend a RayService: 1.6 or newer is required" in result.err
    assert "rayllm-ctl scale tiny -n llm --min-replicas 0" in result.err


def test_pods_that_remain_are_named_at_the_time_out(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    api.applied = lambda _: None
    result = run("suspend", "tiny", "--timeout", "1s")
    assert result.code == 3, str(result)
    assert "is still there after" in result.err
    assert "pod/tiny-bcdfg-head" in result.err


def test_a_field_that_a_queue_has_set_is_its_own(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "kueue"', "field": ".spec.suspend"}
    conflict = status(409, "Apply failed with 1 conflict", "Conflict", causes=[cause])
    api.answer("PATCH", "/rayservices/tiny", conflict)
    result = run("suspend", "tiny")
    assert (result.code, "kueue" in result.err) == (4, True), str(result)


def test_rights_that_are_missing_are_named_before_anything_is_written(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    denied: list[Request] = []

    def review(request: Request) -> tuple[int, dict[str, Any]]:
        asked = request.json()["spec"]["resourceAttributes"]
        if asked["verb"] == "patch":
            denied.append(request)
        return 201, {"status": {"allowed": asked["verb"] != "patch"}}

    api.lists_rules = False
    api.answer("POST", "/selfsubjectaccessreviews", review)
    result = run("suspend", "tiny")
    assert (result.code, "is not permitted to patch rayservices.ray.io" in result.err) == (5, True), str(result)
    assert denied

"""`check`: what a cluster lacks to run services, and what these services need."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.workflows.setup import checks as workflow
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI, Request, status

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: tiny, namespace: llm}
spec:
  model: {id: tiny, path: /models/tiny}
  engine: {image: example.com/vllm-cpu:1, maxModelLen: 1024}
  accelerator: {kind: cpu}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return tmp_path / "tiny.yaml"


def checks(run: Run, *args: str, code: int = 0) -> dict[tuple[str, str], dict[str, Any]]:
    result = run("check", "-n", "llm", "-o", "json", *args)
    assert result.code == code, str(result)
    document = json.loads(result.out)
    assert document["ok"] is (code == 0)
    return {(check["category"], check["name"]): check for check in document["checks"]}


def of_service(run: Run, spec: Path, text: str = SPEC, code: int = 0) -> dict[str, dict[str, Any]]:
    spec.write_text(text, encoding="utf-8")
    found = checks(run, "-f", str(spec), "--offline", code=code)
    return {name: check for (category, name), check in found.items() if category == "service tiny"}


def test_a_cluster_that_has_everything(run: Run, api: FakeAPI) -> None:
    gpus = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    ready = [{"type": "Ready", "status": "True"}]
    api.put(kind="Node", metadata={"name": "g1", "labels": labels}, status={"allocatable": gpus, "conditions": ready})
    result = run("check", "-n", "llm")
    assert result.code == 0, str(result)
    assert "no check failed" in result.out
    found = checks(run)
    assert found["KubeRay", "version"]["detail"] == "1.6.2"
    assert found["nodes", "H100-80GB"]["detail"] == "8 of 8 free"
    assert {found["permissions", name]["ok"] for name in ("deploy", "status", "delete")} == {True}
    assert not api.count("POST", "/pods")


def test_without_kuberay_it_says_how_to_install_it(run: Run, api: FakeAPI) -> None:
    api.installed -= {"RayService", "RayCluster", "RayJob"}
    found = checks(run, code=1)
    assert found["KubeRay", "CRDs"]["ok"] is False
    assert "rayservices.ray.io" in found["KubeRay", "CRDs"]["detail"]
    assert found["KubeRay", "CRDs"]["hints"][0]["command"].startswith("helm install kuberay-operator")
    assert ("KubeRay", "operator") not in found


def test_an_operator_that_is_scaled_to_zero(run: Run, api: FakeAPI) -> None:
    operator = api.stored("Deployment", "kuberay-operator", "kuberay-system")
    api.put(**{**operator, "spec": {**operator["spec"], "replicas": 0}, "status": {}})
    check = checks(run, code=1)["KubeRay", "operator"]
    assert "scaled to 0" in check["detail"]
    assert check["hints"] == [{"command": "kubectl describe deployment/kuberay-operator -n kuberay-system"}]


def test_an_operator_that_watches_other_namespaces(run: Run, api: FakeAPI) -> None:
    operator = api.stored("Deployment", "kuberay-operator", "kuberay-system")
    operator["spec"]["template"]["spec"]["containers"][0]["args"] = ["--watch-namespace=prod"]
    api.put(**operator)
    check = checks(run, code=1)["KubeRay", "namespaces"]
    assert check["detail"] == "the operator watches prod only"


def test_a_namespace_that_does_not_exist(run: Run, api: FakeAPI) -> None:
    api.namespaces.remove("llm")
    check = checks(run, code=1)["namespace", "llm"]
    assert check["hints"] == [{"command": "kubectl create namespace llm"}]


def test_rights_that_are_missing_and_what_grants_them(run: Run, api: FakeAPI) -> None:
    api.granted = {("get", "rayservices.ray.io", False), ("get", "rayclusters.ray.io", False)}
    found = checks(run, code=1)
    assert found["permissions", "deploy"]["ok"] is False
    assert "create rayservices.ray.io" in found["permissions", "deploy"]["detail"]
    hint = found["permissions", "deploy"]["hints"][1]
    assert hint["command"].startswith("rayllm-ctl rbac --for deploy -n llm")
    assert hint["remark"] == "prints the Role"
    assert found["nodes", "ready"]["ok"] is None


def test_a_quota_with_nothing_left_is_a_warning(run: Run, api: FakeAPI) -> None:
    hard = {"requests.nvidia.com/gpu": "4", "pods": "100"}
    used = {"requests.nvidia.com/gpu": "4", "pods": "7"}
    api.put(kind="ResourceQuota", metadata={"name": "team"}, status={"hard": hard, "used": used})
    check = checks(run)["namespace", "quotas"]
    assert check["ok"] is None
    assert check["detail"] == "team has no requests.nvidia.com/gpu left (4 of 4 used)"


def test_gpu_nodes_without_a_device_plugin(run: Run, api: FakeAPI) -> None:
    node = api.stored("Node", "n1", "")
    node["metadata"]["labels"] = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    api.put(**node)
    check = checks(run, code=1)["nodes", "L4"]
    assert check["detail"] == "a node labelled with it offers none to pods"
    assert "device plugin" in check["hints"][0]["remark"]


def test_gpus_in_parts_are_named(run: Run, api: FakeAPI) -> None:
    node = api.stored("Node", "n1", "")
    node["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.replicas": "4"}
    api.put(**node)
    found = checks(run, code=0)["nodes", "partial GPUs"]
    assert found["ok"] is None
    assert found["detail"].startswith("a node has nvidia.com/gpu.product=NVIDIA-L4-SHARED, a time-shared GPU, which")


def test_a_gpu_node_without_a_device_plugin_is_a_warning_beside_others(run: Run, api: FakeAPI) -> None:
    first = api.stored("Node", "n1", "")
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    api.put(**{**first, "metadata": {**first["metadata"], "labels": labels}})
    status = {**first["status"], "allocatable": {**first["status"]["allocatable"], "nvidia.com/gpu": "8"}}
    api.put(**{**first, "metadata": {"name": "n2", "labels": labels}, "status": status})
    result = run("check", "-n", "llm", "-o", "json")
    assert result.code == 0, str(result)
    found = [(one["ok"], one["detail"]) for one in json.loads(result.out)["checks"] if one["name"] == "L4"]
    assert found == [(True, "8 of 8 free"), (None, "a node labelled with it offers none to pods")]


def test_what_a_service_names_is_looked_up(run: Run, api: FakeAPI, spec: Path) -> None:
    text = SPEC + "  pods: {worker: {env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: api, key: token}}}]}}\n"
    found = of_service(run, spec, text, code=1)
    assert found["Secret api"]["detail"] == "does not exist in namespace llm"
    assert found["Secret api"]["hints"] == [
        {"command": "kubectl create secret generic api -n llm --from-file=token=FILE"}
    ]
    api.put(kind="Secret", metadata={"name": "api"}, data={"other": "eA=="})
    assert of_service(run, spec, text, code=1)["Secret api"]["detail"] == "has no key token; it has other"
    api.put(kind="Secret", metadata={"name": "api"}, data={"token": "eA=="})
    found = of_service(run, spec, text)
    assert "Secret api" not in found
    assert found["references"]["ok"] is True


def test_pods_are_admitted_in_a_dry_run(run: Run, api: FakeAPI, spec: Path) -> None:
    found = of_service(run, spec)
    admitted = [name for name, check in found.items() if name.startswith("admission") and check["ok"]]
    assert admitted == ["admission of the head", "admission of workers of group cpu"]
    posted = [one for one in api.requests if one.method == "POST" and one.path.endswith("/pods")]
    assert [one.query for one in posted] == [{"dryRun": "All"}] * 2
    assert not api.names("RayService")


def test_an_admission_that_is_rejected(run: Run, api: FakeAPI, spec: Path) -> None:
    def reject(request: Request) -> Any:
        head = "head" in json.loads(request.body)["spec"]["containers"][0]["name"]
        return status(403, "pods is forbidden: exceeded quota: team, requested: pods=1", "Forbidden") if head else None

    api.answer("POST", "/pods$", reject)
    found = of_service(run, spec, code=1)
    assert "exceeded quota: team" in found["admission of the head"]["detail"]
    assert found["admission of workers of group cpu"]["ok"] is True


def test_without_the_right_to_create_pods_admission_is_not_checked(run: Run, api: FakeAPI, spec: Path) -> None:
    def review(request: Request) -> Any:
        attributes = request.json()["spec"]["resourceAttributes"]
        denied = (attributes["verb"], attributes["resource"]) == ("create", "pods")
        return (201, {"status": {"allowed": False}}) if denied else None

    api.lists_rules = False
    api.answer("POST", "/selfsubjectaccessreviews$", review)
    found = of_service(run, spec)
    assert found["admission"]["ok"] is None
    assert found["admission"]["detail"] == "not checked: not permitted to create pods"


def test_a_place_for_the_workers(run: Run, api: FakeAPI, spec: Path) -> None:
    assert of_service(run, spec)["capacity"]["ok"] is True
    node = api.stored("Node", "n1", "")
    node["status"]["allocatable"]["memory"] = "1Gi"
    api.put(**node)
    found = of_service(run, spec)["capacity"]
    assert found["ok"] is None
    assert "insufficient memory" in found["detail"]


def test_a_spec_that_cannot_run_is_rejected_before_a_cluster_is_asked(run: Run, api: FakeAPI, spec: Path) -> None:
    spec.write_text(SPEC.replace("maxModelLen: 1024", "maxModelLen: -1"), encoding="utf-8")
    result = run("check", "-f", str(spec), "--offline")
    assert result.code == 2, str(result)
    assert not api.requests


def test_before_kuberay_is_installed(run: Run, api: FakeAPI) -> None:
    api.installed -= {"RayService", "RayCluster", "RayJob"}
    found = checks(run, "--pre")
    assert {category for category, _ in found} == {"Kubernetes", "namespace", "nodes"}
    assert run("check", "-n", "llm", "--pre", "--security", "tiny").code == 2


def test_short_output_has_only_what_needs_attention(run: Run, api: FakeAPI) -> None:
    api.installed -= {"RayService", "RayCluster", "RayJob"}
    whole, short = run("check", "-n", "llm"), run("check", "-n", "llm", "-o", "short")
    assert (whole.code, short.code) == (1, 1)
    assert "API server" in whole.out
    assert "API server" not in short.out
    lines = [line for line in whole.out.splitlines() if "✗" in line or "‼" in line]
    assert [line for line in short.out.splitlines() if line.startswith("  ") and line[2] in "✔✗‼"] == lines
    assert lines


def test_waiting_until_no_check_fails(run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "REPEAT_SECONDS", 0.0)
    installed = set(api.installed)
    api.installed -= {"RayService", "RayCluster", "RayJob"}
    assert run("check", "-n", "llm", "--wait", "--timeout", "0s").code == 3
    rounds = []

    def install(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 2:
            api.installed = installed

    # Not the function of all threads, of which others may sleep as well.
    monkeypatch.setattr(workflow, "time", SimpleNamespace(monotonic=time.monotonic, sleep=install))
    result = run("check", "-n", "llm", "--wait", "--timeout", "1h")
    assert result.code == 0, str(result)
    assert len(rounds) == 2
    assert result.err.count("waiting for KubeRay: ") == 1
    assert "no check failed" in result.out

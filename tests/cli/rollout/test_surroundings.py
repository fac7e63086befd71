"""Objects next to a service: applied, changed, removed when the spec no longer has them, and what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: tiny, namespace: llm}
spec:
  model: {id: tiny, path: /models/tiny}
  engine: {image: example.com/vllm-cpu:1, maxModelLen: 1024}
  accelerator: {kind: cpu}
"""
EXPOSED = SPEC + "  exposure: {ingress: {host: tiny.example.com}}\n"
BALANCED = (
    SPEC + "  exposure: {type: LoadBalancer, sourceRanges: [10.0.0.0/8], annotations: {example.com/scheme: internal}}\n"
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return tmp_path / "tiny.yaml"


def apply(run: Run, spec: Path, text: str, *arguments: str) -> str:
    spec.write_text(text, encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline", *arguments)
    assert result.code == 0, result.err
    return result.err


def kinds(api: FakeAPI) -> set[str]:
    return {kind for kind in ("RayService", "Ingress", "NetworkPolicy") if api.names(kind)}


def test_an_object_that_the_spec_no_longer_has_is_deleted(run: Run, api: FakeAPI, spec: Path) -> None:
    assert "ingress/tiny created" in apply(run, spec, EXPOSED)
    assert kinds(api) == {"RayService", "Ingress"}
    assert "ingress/tiny deleted (dry run)" in apply(run, spec, SPEC, "--dry-run=server")
    assert kinds(api) == {"RayService", "Ingress"}
    assert "ingress/tiny deleted" in apply(run, spec, SPEC)
    assert kinds(api) == {"RayService"}
    assert "deleted" not in apply(run, spec, SPEC)


def test_objects_of_others_are_never_deleted(run: Run, api: FakeAPI, spec: Path) -> None:
    labels = {"app.kubernetes.io/managed-by": "rayllm-ctl", "app.kubernetes.io/instance": "tiny"}
    api.put(kind="Ingress", metadata={"name": "copied-labels", "labels": labels})
    apply(run, spec, SPEC)
    assert kinds(api) == {"RayService", "Ingress"}


def test_nothing_is_applied_if_a_leftover_may_not_be_deleted(run: Run, api: FakeAPI, spec: Path) -> None:
    apply(run, spec, EXPOSED)
    api.lists_rules = False
    api.answer("POST", "selfsubjectaccessreviews", lambda request: (
        201,
        {"status": {"allowed": request.json()["spec"]["resourceAttributes"]["verb"] != "delete"}},
    ))  # fmt: skip
    spec.write_text(SPEC, encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline")
    assert result.code == 5
    assert "is not permitted to delete ingresses.networking.k8s.io in namespace llm" in result.err
    assert kinds(api) == {"RayService", "Ingress"}
    assert api.count("PATCH", "rayservices") == 1


def test_the_service_that_runs_follows_the_spec(run: Run, api: FakeAPI, spec: Path) -> None:
    apply(run, spec, SPEC)
    assert "service/tiny-serve-svc configured" in apply(run, spec, BALANCED)
    service = api.stored("Service", "tiny-serve-svc")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert service["metadata"]["annotations"] == {"example.com/scheme": "internal"}
    apply(run, spec, BALANCED)
    assert api.count("PATCH", "/services/tiny-serve-svc") == 1


@pytest.mark.parametrize(
    ("section", "kind", "message", "hint"),
    [
        ("  exposure: {gateway: {name: public}}\n", "HTTPRoute",
         "the cluster does not serve httproutes.gateway.networking.k8s.io", "gateway-api/releases"),
        ("  monitoring: {podMonitor: {}}\n", "PodMonitor",
         "the cluster does not serve podmonitors.monitoring.coreos.com", "helm install kube-prometheus-stack"),
    ],
)  # fmt: skip
def test_a_kind_that_is_not_installed_is_reported_before_anything_is_applied(
    run: Run, api: FakeAPI, spec: Path, section: str, kind: str, message: str, hint: str
) -> None:
    api.installed.remove(kind)
    spec.write_text(SPEC + section, encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline")
    assert result.code == 1
    assert message in result.err
    assert hint in result.err
    assert kinds(api) == set()


INCREMENTAL = (
    SPEC
    + """\
  upgrade:
    {strategy: NewClusterWithIncrementalUpgrade, stepSizePercent: 20, interval: 30s, gatewayClassName: istio}
"""
)


def test_what_an_incremental_upgrade_lacks_is_said_before_anything_is_applied(
    run: Run, api: FakeAPI, spec: Path
) -> None:
    spec.write_text(INCREMENTAL, encoding="utf-8")
    api.installed.remove("GatewayClass")
    no_api = run("apply", "-f", str(spec), "--offline")
    assert (no_api.code, kinds(api)) == (1, set())
    assert "needs the Gateway API, and the cluster does not serve gatewayclasses" in no_api.err
    api.installed.add("GatewayClass")
    no_class = run("apply", "-f", str(spec), "--offline")
    assert (no_class.code, kinds(api)) == (1, set())
    assert "there is no GatewayClass istio" in no_class.err
    api.put(kind="GatewayClass", metadata={"name": "istio"})
    assert "runs without --feature-gates=RayServiceIncrementalUpgrade=true" in apply(run, spec, INCREMENTAL)
    assert kinds(api) == {"RayService"}


def test_a_policy_that_locks_the_operator_out_is_reported_before_anything_is_applied(
    run: Run, api: FakeAPI, spec: Path
) -> None:
    spec.write_text(SPEC + "  security: {network: restricted, operatorNamespace: ray}\n", encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline")
    assert result.code == 1
    assert "the KubeRay operator runs in namespace kuberay-system" in result.err
    assert "set spec.security.operatorNamespace: kuberay-system" in result.err
    assert kinds(api) == set()
    assert "networkpolicy/tiny created" in apply(run, spec, SPEC + "  security: {network: restricted}\n")

"""Whether Ray asks for a token: what the spec states, what the cluster can do, and what runs there."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.kube.kuberay import asks_for_token
from rayllm_ctl.model.kube.releases import TOKEN_RAY
from rayllm_ctl.model.spec.batch import BatchJob, BatchModel, Input, Output
from rayllm_ctl.model.spec.checks.ray_features import OLDEST_RAY
from rayllm_ctl.model.spec.patches import Patch, PatchTarget
from rayllm_ctl.model.spec.ray_options import Authentication, RayOptions
from rayllm_ctl.model.spec.service import LLMService, Model
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, TokenDecision, decide_token, with_token

TOKEN = TokenDecision("token")
NOTHING_KNOWN = KnownCluster()
OLD = KnownCluster("1.4.2")
RUNS_WITHOUT = KnownCluster("1.6.0", asks=False)
CLUSTERS = [NOTHING_KNOWN, OLD, RUNS_WITHOUT, KnownCluster("1.6.0", asks=True)]


def service(authentication: Authentication | None = None, *patches: Any) -> LLMService:
    ray = RayOptions(authentication or Authentication())
    target = PatchTarget(kind="RayService")
    return LLMService("tiny", Model("tiny"), ray=ray, patches=tuple(Patch(target, one) for one in patches))


@pytest.mark.parametrize("cluster", [NOTHING_KNOWN, KnownCluster("1.5"), KnownCluster("1.5.1"), KnownCluster("x")])
@pytest.mark.parametrize("asks", [None, True])
def test_a_token_is_the_default(cluster: KnownCluster, asks: bool | None) -> None:
    assert decide_token(service(), KnownCluster(cluster.kuberay, asks)) == TOKEN


@pytest.mark.parametrize("version", ["1.4", "1.4.2", "1.5.0"])
@pytest.mark.parametrize("asks", [None, True, False])
def test_a_kuberay_without_tokens(version: str, asks: bool | None) -> None:
    decision = decide_token(service(), KnownCluster(version, asks))
    assert decision.mode == "none"
    assert decision.why_off.startswith(f"off: KubeRay {version} does not support it (requires 1.5.1); ")


@pytest.mark.parametrize("version", ["", "1.6.0"])
def test_a_service_without_a_token_stays_without_one(version: str) -> None:
    decision = decide_token(service(), KnownCluster(version, asks=False))
    assert decision.mode == "none"
    assert decision.why_off.startswith("off, as in the running service; ")


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    ("source", "mode"),
    [
        (service(Authentication("none")), "none"),
        (service(Authentication("token")), "token"),
        (service(Authentication(secret_name="own")), "token"),
        (service(None, {"spec": {"rayClusterConfig": {"authOptions": {"mode": "token"}}}}), "token"),
        (service(None, {}, [{"op": "remove", "path": "/spec/rayClusterConfig/authOptions"}]), "token"),
    ],
)
def test_what_a_spec_states_is_independent_of_the_cluster(source: LLMService, mode: Any, cluster: KnownCluster) -> None:
    assert decide_token(source, cluster) == TokenDecision(mode)


def test_a_patch_of_something_else_states_nothing() -> None:
    described = {"metadata": {"annotations": {"note": "no authOptions here"}}}
    assert decide_token(service(None, described), RUNS_WITHOUT).mode == "none"


def test_a_job_on_an_existing_cluster_decides_nothing() -> None:
    job = BatchJob("job", BatchModel("m"), Input(paths=("s3://b/in",)), Output("s3://b/out"))
    assert decide_token(job, OLD).mode == "none"
    on_a_cluster = BatchJob("job", BatchModel("m"), Input(paths=("s3://b/in",)), Output("s3://b/out"), cluster="pool")
    assert decide_token(on_a_cluster, OLD) == TOKEN


def test_every_supported_ray_has_tokens() -> None:
    assert OLDEST_RAY >= TOKEN_RAY


def test_the_decision_keeps_the_secret() -> None:
    ray = RayOptions(Authentication(secret_name="own"), idle_timeout=5)
    assert with_token(ray, TOKEN) == RayOptions(Authentication("token", "own"), idle_timeout=5)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"kind": "RayService", "spec": {"rayClusterConfig": {"authOptions": {"mode": "token"}}}}, True),
        ({"kind": "RayService", "spec": {"rayClusterConfig": {"authOptions": {"mode": "disabled"}}}}, False),
        ({"kind": "RayService", "spec": {"rayClusterConfig": {"authOptions": None}}}, False),
        ({"kind": "RayService", "spec": {"authOptions": {"mode": "token"}}}, False),
        ({"kind": "RayCluster", "spec": {"authOptions": {"mode": "token"}}}, True),
        ({"kind": "RayCluster", "spec": {}}, False),
        ({"kind": "ConfigMap"}, False),
    ],
)
def test_the_token_of_an_object(item: dict[str, Any], expected: bool) -> None:
    assert asks_for_token(item) is expected

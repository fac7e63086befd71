"""That no rule and no code is without a sample and a word in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.rules import (
    AFTERMATH_RULES,
    CLUSTER_RULES,
    CONSEQUENCE_RULES,
    LAST_RULES,
    POD_RULES,
    SERVICE_RULES,
    head,
)
from rayllm_ctl.model.text.hint import Hint
from tests.health.cases import NAME, NAMESPACE, SAMPLES, case_folders, expected, load_case

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "diagnosis-codes.md"

CODES = frozenset(
    {
        "InsufficientGPU", "InsufficientResources", "UntoleratedTaint", "NodeSelectorMismatch", "SchedulingGated",
        "QuotaExceeded", "AdmissionDenied", "PodSecurityViolation", "ImagePullFailed", "MissingSecretOrConfig",
        "VolumeNotReady", "ContainerCrash", "OOMKilled", "Evicted", "ProbeFailing", "NodeLost",
        "OperatorNotReconciling", "ValidationFailed", "InitializingTimeout", "ServeConfigRejected",
        "ApplicationFailed", "EngineOutOfMemory", "ModelNotFound", "ModelAccessDenied", "ReplicaUnschedulable",
        "ReplicaUnhealthy", "HeadDown", "UpgradeBlocked", "AutoscalerFailed", "BoundsNotApplied", "ScaledToZero",
        "DeletionBlocked", "StillStarting", "PodSandboxFailed", "NodeRejectedPod", "HeadUnreachable", "HubUnreachable",
        "AcceleratorFault", "DownloadUnauthorized", "DownloadNotFound", "DownloadThrottled", "DownloadUnreachable",
        "DownloadNoSpace", "DownloadCorrupt", "DownloadFailed", "DownloadStuck", "DownloadSlow", "CompileCacheUnused",
    }
)  # fmt: skip
"""The stable words of `status -o json`: scripts compare with them."""


@pytest.fixture(scope="module")
def contexts() -> list[ServiceContext]:
    return [ServiceContext(load_case(folder), NAME, NAMESPACE) for folder in case_folders()]


@pytest.mark.parametrize("rule", [*SERVICE_RULES, *LAST_RULES], ids=lambda rule: rule.__name__)
def test_every_service_rule_has_a_sample(rule, contexts: list[ServiceContext]) -> None:  # type: ignore[no-untyped-def]
    assert any(rule(context) is not None for context in contexts)


@pytest.mark.parametrize("rule", [*CLUSTER_RULES, *AFTERMATH_RULES, *CONSEQUENCE_RULES], ids=lambda rule: rule.__name__)
def test_every_cluster_rule_has_a_sample(rule, contexts: list[ServiceContext]) -> None:  # type: ignore[no-untyped-def]
    assert any(rule(context, cluster) is not None for context in contexts for cluster in context.clusters)


@pytest.mark.parametrize("rule", POD_RULES, ids=lambda rule: rule.__name__)
def test_every_pod_rule_has_a_sample(rule, contexts: list[ServiceContext]) -> None:  # type: ignore[no-untyped-def]
    assert any(rule(context, pod) is not None for context in contexts for pod in context.pods)


def test_every_code_has_a_sample_and_no_sample_a_code_of_its_own() -> None:
    seen = {code for folder in case_folders() for code in expected(folder).get("codes", [])}
    assert seen == CODES


def test_every_code_is_documented() -> None:
    causes = DOCUMENT.read_text(encoding="utf-8").partition("## Causes")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", causes, re.M))
    assert documented == CODES


def test_of_two_heads_the_one_that_is_not_ready_is_to_be_deleted() -> None:
    context = ServiceContext(load_case(SAMPLES / "second-head-that-never-becomes-ready"), NAME, NAMESPACE)
    [cluster] = context.clusters
    found = head.second_head(context, cluster)
    assert found is not None
    assert found.cause.hint == (Hint(f"kubectl delete pod demo-bcdfg-head-ccccc -n {NAMESPACE}"),)
    assert "2 head pods, demo-bcdfg-head-aaaaa and demo-bcdfg-head-ccccc" in found.cause.message

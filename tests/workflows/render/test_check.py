"""Which part of a spec is named when a cluster would reject what it renders to."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS, known_version
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.patches import Patch, PatchTarget
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.model.spec.ray_options import Authentication, RayOptions
from rayllm_ctl.render import render
from rayllm_ctl.workflows.render.check import check_manifests
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

ANY = PatchTarget(kind="RayService")
HARMLESS = Patch(ANY, {"metadata": {"labels": {"team": "search"}}})


def planned(*patches: Patch, **fields: Any) -> Plan:
    return plan(dataclasses.replace(GPU, patches=patches, **fields), H100, tensor=4)


def found(its_plan: Plan, kuberay: str = "1.6") -> UserError | None:
    try:
        check_manifests(render(its_plan), its_plan, kuberay)
    except UserError as raised:
        return raised
    return None


def error(its_plan: Plan, kuberay: str = "1.6") -> UserError:
    raised = found(its_plan, kuberay)
    assert raised is not None
    return raised


def test_what_is_valid_passes_for_every_version() -> None:
    its_plan = planned(HARMLESS, ray=RayOptions(Authentication("none")))
    assert [str(found(its_plan, version)) for version in VERSIONS] == ["None"] * len(VERSIONS)


def test_the_patch_that_causes_a_problem_is_named() -> None:
    misspelled = Patch(ANY, {"spec": {"rayClusterConfig": {"rayVersoin": "2.60.0"}}})
    failure = error(planned(HARMLESS, misspelled, HARMLESS))
    assert isinstance(failure, UsageError)
    assert failure.message == "spec.patches[1]: RayService qwen: spec.rayClusterConfig.rayVersoin: unknown field"
    assert failure.hints == ("did you mean rayVersion?",)


def test_two_patches_with_a_problem_each_are_both_named() -> None:
    first = Patch(ANY, {"spec": {"wrong": 1}})
    second = Patch(ANY, [{"op": "add", "path": "/spec/rayClusterConfig/rayVersion", "value": 2}])
    assert error(planned(first, second)).message.splitlines() == [
        "spec.patches[1]: RayService qwen: spec.rayClusterConfig.rayVersion: 2 is not of type string",
        "spec.patches[0]: RayService qwen: spec.wrong: unknown field",
    ]


def test_a_patch_that_the_operator_would_reject_is_named() -> None:
    patch = Patch(ANY, {"spec": {"rayClusterConfig": {"workerGroupSpecs": [{"groupName": "gpu", "minReplicas": 9}]}}})
    assert error(planned(patch)).message == (
        "spec.patches[0]: RayService qwen: spec.rayClusterConfig.workerGroupSpecs[0].minReplicas: "
        "9 is greater than maxReplicas (1)"
    )


def test_a_field_of_the_spec_that_the_version_does_not_know_is_named() -> None:
    its_plan = planned(ray=RayOptions(authentication=Authentication("token")))
    failure = error(its_plan, "1.4")
    assert isinstance(failure, UsageError)
    assert failure.message == (
        "spec.ray.authentication: RayService qwen: spec.rayClusterConfig.authOptions: unknown field in KubeRay 1.4; "
        "supported by 1.5, 1.6, 1.7"
    )
    check_manifests(render(its_plan), its_plan, "1.5")


def test_the_pod_template_that_causes_a_problem_is_named() -> None:
    pods = Pods(PodOptions(pod_template={"spec": {"hostNetwrk": True}}), PodOptions(pod_template={"spec": {"a": 1}}))
    assert error(planned(HARMLESS, pods=pods)).message.splitlines() == [
        "spec.pods.head.podTemplate: RayService qwen: spec.rayClusterConfig.headGroupSpec.template.spec.hostNetwrk: "
        "unknown field",
        "spec.pods.worker.podTemplate: RayService qwen: spec.rayClusterConfig.workerGroupSpecs[0].template.spec.a: "
        "unknown field",
    ]


def test_what_no_field_explains_is_a_bug() -> None:
    its_plan = planned()
    manifests = render(its_plan)
    manifests[0]["spec"]["wrong"] = 1
    with pytest.raises(UserError) as raised:
        check_manifests(manifests, its_plan)
    assert not isinstance(raised.value, UsageError)
    assert raised.value.message == "RayService qwen: spec.wrong: unknown field"
    assert "bug in rayllm-ctl" in raised.value.hints[-1]


@pytest.mark.parametrize(
    ("text", "version", "note"),
    [
        ("1.4", "1.4", ""),
        ("v1.6.2", "1.6", ""),
        ("1.7.0-rc.0", "1.7", ""),
        ("1.3.2", "1.4", "KubeRay 1.3.2 is older than those known (1.4 to 1.7): checked as 1.4"),
        ("2.0", "1.7", "KubeRay 2.0 is newer than those known (1.4 to 1.7): checked as 1.7"),
    ],
)
def test_the_nearest_version_stands_for_one_that_is_not_known(text: str, version: str, note: str) -> None:
    assert known_version(text) == (version, note)


@pytest.mark.parametrize("text", ["", "latest", "1", "1.x", "1.6.2.3.4"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid version of KubeRay"):
        known_version(text)

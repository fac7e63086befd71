"""Raw parts of pods are checked against the schema, and the pods of a manifest against their level of security."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from rayllm_ctl.errors import USAGE, UsageError
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.render import render
from rayllm_ctl.render.podparts import check_pod_security, check_raw_parts
from rayllm_ctl.workflows.render.manifests import manifests
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def rejected(**options: Any) -> list[str]:
    its_plan = plan(dataclasses.replace(GPU, pods=Pods(worker=PodOptions(**options))), H100)
    with pytest.raises(UsageError) as caught:
        manifests(its_plan)
    assert caught.value.exit_code == USAGE
    return caught.value.message.splitlines()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"affinity": {"nodeAfinity": {}}}, "affinity.nodeAfinity: unknown field"),
        ({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": "1"}]}}},
         "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm: required field is "
         "missing"),
        ({"topology_spread_constraints": (SPREAD, {**SPREAD, "maxSkew": "1"})},
         'topologySpreadConstraints[1].maxSkew: "1" is not of type integer'),
        ({"security_context": {"runAsUser": "ray"}}, 'securityContext.runAsUser: "ray" is not of type integer'),
        ({"container_security_context": {"readOnlyRootFileSystem": True}},
         "containerSecurityContext.readOnlyRootFileSystem: unknown field"),
    ],
)  # fmt: skip
def test_a_raw_part_is_rejected_by_its_path_in_the_spec(options: dict[str, Any], problem: str) -> None:
    assert f"spec.pods.worker.{problem}" in rejected(**options)


def test_null_in_a_security_context_is_no_value_of_a_wrong_type() -> None:
    options = PodOptions(security_context={"runAsUser": None}, topology_spread_constraints=(SPREAD,))
    its_plan = plan(dataclasses.replace(GPU, pods=Pods(options, options)), H100)
    assert its_plan.deployment is not None
    check_raw_parts(its_plan.deployment.pod_options)
    assert "runAsUser" not in its_plan.deployment.head.security_context


def test_every_pod_is_held_against_the_level() -> None:
    [manifest] = render(plan(GPU, H100))
    check_pod_security([manifest], "restricted")
    broken = copy.deepcopy(manifest)
    cluster = broken["spec"]["rayClusterConfig"]
    cluster["workerGroupSpecs"][0]["template"]["spec"]["hostIPC"] = True
    cluster["headGroupSpec"]["template"]["spec"]["initContainers"] = [
        {"name": "x", "securityContext": {"runAsUser": 0}}
    ]
    with pytest.raises(UsageError) as caught:
        check_pod_security([broken], "restricted")
    lines = caught.value.message.splitlines()
    place = "RayService.spec.rayClusterConfig"
    where = f"{place}.workerGroupSpecs[0].template.spec.hostIPC"
    assert f"{where}: violates Pod Security restricted: pods must not share namespaces of the node" in lines
    assert any(line.startswith(f"{place}.headGroupSpec.template.spec.initContainers[0]") for line in lines)
    assert "spec.security.podSecurity: privileged" in caught.value.hints
    check_pod_security([broken], "privileged")


def test_the_autoscaler_is_locked_down_and_has_the_only_token() -> None:
    [manifest] = render(plan(GPU, H100))
    cluster = manifest["spec"]["rayClusterConfig"]
    options = cluster["autoscalerOptions"]
    assert options["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    [mount] = options["volumeMounts"]
    for group in (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]):
        spec = group["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        names = [mounted["name"] for container in spec["containers"] for mounted in container.get("volumeMounts", [])]
        assert mount["name"] not in names
    assert mount["name"] in [volume["name"] for volume in cluster["headGroupSpec"]["template"]["spec"]["volumes"]]

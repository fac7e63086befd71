"""What a namespace that enforces a level of the Pod Security Standards would reject."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.model.spec.pod_contexts import container_context, lost, pod_context
from rayllm_ctl.model.spec.pod_security import violations
from rayllm_ctl.model.spec.security import PodSecurity

GOOD: dict[str, Any] = {
    "securityContext": pod_context("restricted", {}),
    "containers": [{"name": "c", "securityContext": container_context("restricted", {})}],
}


def pod(container: dict[str, Any] | None = None, context: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """GOOD with fields of the container's security context, of the pod's, and of the spec."""
    return {
        "securityContext": {**GOOD["securityContext"], **(context or {})},
        "containers": [{"securityContext": {**GOOD["containers"][0]["securityContext"], **(container or {})}}],
        **spec,
    }


@pytest.mark.parametrize("level", ["restricted", "baseline", "privileged"])
def test_what_is_rendered_by_default_satisfies_its_level(level: PodSecurity) -> None:
    spec = {
        "securityContext": pod_context(level, {}),
        "containers": [{"securityContext": container_context(level, {})}],
    }
    assert list(violations(spec, level)) == []


@pytest.mark.parametrize(
    ("spec", "where", "permitted_by"),
    [
        (pod(hostNetwork=True), "hostNetwork", "privileged"),
        (pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {}}]), "volumes.1.hostPath",
         "privileged"),
        (pod(volumes=[{"name": "n", "nfs": {}}]), "volumes.0", "baseline"),
        (pod({"privileged": True}), "containers.0.securityContext.privileged", "privileged"),
        (pod({"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}),
         "containers.0.securityContext.capabilities.add", "privileged"),
        (pod({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}),
         "containers.0.securityContext.capabilities.add", "baseline"),
        (pod({"capabilities": {"drop": ["CHOWN"]}}), "containers.0.securityContext.capabilities.drop", "baseline"),
        (pod({"allowPrivilegeEscalation": True}), "containers.0.securityContext.allowPrivilegeEscalation", "baseline"),
        (pod({"procMount": "Unmasked"}), "containers.0.securityContext.procMount", "privileged"),
        (pod({"seLinuxOptions": {"user": "u"}}), "containers.0.securityContext.seLinuxOptions", "privileged"),
        (pod({"runAsNonRoot": False}), "containers.0.securityContext.runAsNonRoot", "baseline"),
        (pod({"runAsUser": 0}), "containers.0.securityContext.runAsUser", "baseline"),
        (pod(context={"runAsUser": 0}), "securityContext.runAsUser", "baseline"),
        (pod(context={"seccompProfile": {"type": "Unconfined"}}), "securityContext.seccompProfile.type", "privileged"),
        (pod(context={"appArmorProfile": {"type": "Unconfined"}}), "securityContext.appArmorProfile.type",
         "privileged"),
        (pod(context={"windowsOptions": {"hostProcess": True}}),
         "securityContext.windowsOptions.hostProcess", "privileged"),
        (pod(context={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "securityContext.sysctls.0",
         "privileged"),
        (pod(initContainers=GOOD["containers"], containers=[{"ports": [{"hostPort": 80}], **GOOD["containers"][0]}]),
         "containers.0.ports.0.hostPort", "privileged"),
        (pod(containers=[{**GOOD["containers"][0], "livenessProbe": {"httpGet": {"host": "h"}}}]),
         "containers.0.livenessProbe.httpGet.host", "privileged"),
    ],
)  # fmt: skip
def test_a_violation_is_named_with_the_level_that_permits_it(spec: Any, where: str, permitted_by: PodSecurity) -> None:
    [found] = violations(spec, "restricted")
    assert (".".join(map(str, found.path)), found.permitted_by) == (where, permitted_by)
    assert list(violations(spec, permitted_by)) == []


def test_a_container_of_the_users_own_has_to_be_locked_down_too() -> None:
    spec = pod(initContainers=[{"name": "fetch"}])
    assert [".".join(map(str, found.path)) for found in violations(spec, "restricted")] == [
        "initContainers.0.securityContext.allowPrivilegeEscalation",
        "initContainers.0.securityContext.capabilities.drop",
    ]


def test_what_has_a_wrong_type_is_left_to_the_schema() -> None:
    assert list(violations({"containers": 1, "volumes": "x", "securityContext": []}, "baseline")) == []
    assert list(violations(pod({"capabilities": {"add": [{}], "drop": ["ALL"]}}), "restricted")) == []


def test_null_removes_a_default_and_other_values_replace_it() -> None:
    context = pod_context("restricted", {"runAsUser": None, "fsGroup": 7})
    assert "runAsUser" not in context
    assert (context["fsGroup"], context["runAsNonRoot"]) == (7, True)


def test_only_a_relaxed_level_loses_something() -> None:
    assert lost("restricted") is None
    assert "may be root" in (lost("baseline") or "")
    assert "directories of the node" in (lost("privileged") or "")

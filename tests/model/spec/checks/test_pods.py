"""What is rejected in spec.pods and by the level of Pod Security, with the path to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.pod_options import (
    AllOf,
    EnvironmentSource,
    EnvironmentVariable,
    FieldOf,
    KeyOf,
    ObjectName,
    PodOptions,
    Pods,
    ValueFrom,
)
from rayllm_ctl.model.spec.security import Security
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Storage, Volume
from rayllm_ctl.model.text.problems import Problem

GOOD = LLMService("qwen", Model("m", token_secret=SecretKey("hf", "token")), engine=Engine(env={"A": "1"}))
SECRET = ValueFrom(secret_key_ref=KeyOf("s", "k"))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def only_problem(level: Any = "restricted", **options: Any) -> Problem:
    service = dataclasses.replace(GOOD, pods=Pods(worker=PodOptions(**options)), security=Security(level))
    problems = validate(service)
    assert len(problems) == 1, problems
    return problems[0]


def required(terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("options", "where", "words"),
    [
        ({"service_account_name": "A"}, "serviceAccountName", "object name"),
        ({"priority_class_name": ""}, "priorityClassName", "object name"),
        ({"runtime_class_name": "a_b"}, "runtimeClassName", "object name"),
        ({"image_pull_secrets": (ObjectName("ok"), ObjectName("A"))}, "imagePullSecrets[1].name", "object name"),
        ({"image_pull_secrets": (ObjectName("a"), ObjectName("a"))}, "imagePullSecrets[1].name", "duplicate Secret"),
        ({"pod_template": {"spec": {"hostname": "\0"}}}, "podTemplate", "that Kubernetes rejects"),
        ({"pod_template": {"spec": {"hostname": "hf_" + "a" * 30}}}, "podTemplate", "looks like a credential"),
        ({"labels": {"a/b/c": "x"}}, "labels.a/b/c", "label key"),
        ({"labels": {"a": "x y"}}, "labels.a", "label value"),
        ({"labels": {"ray.io/group": "x"}}, "labels.ray.io/group", "reserved"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "labels.app.kubernetes.io/name", "reserved"),
        ({"annotations": {"ray.io/overwrite-container-cmd": "true"}}, "annotations.ray.io/overwrite-container-cmd",
         "reserved"),
        ({"annotations": {"a": "\x7f"}}, "annotations.a", "control characters"),
        ({"env": (EnvironmentVariable("1A", "x"),)}, "env[0].name", "variable name"),
        ({"env": (EnvironmentVariable("RAY_CLUSTER_NAME", "x"),)}, "env[0].name", "KubeRay sets it"),
        ({"env": (EnvironmentVariable("A", "x"),)}, "env[0].name", "spec.engine.env"),
        ({"env": (EnvironmentVariable("HF_TOKEN", value_from=SECRET),)}, "env[0].name", "spec.model.tokenSecret"),
        ({"env": (EnvironmentVariable("B", "x"), EnvironmentVariable("B", "y"))}, "env[1].name", "duplicate"),
        ({"env": (EnvironmentVariable("B"),)}, "env[0]", "either value or valueFrom"),
        ({"env": (EnvironmentVariable("B", "x", SECRET),)}, "env[0]", "either value or valueFrom"),
        ({"env": (EnvironmentVariable("DB_PASS", "x"),)}, "env[0].value", "credential"),
        ({"env": (EnvironmentVariable("B", value_from=ValueFrom()),)}, "env[0].valueFrom", "not 0"),
        ({"env": (EnvironmentVariable("B", value_from=ValueFrom(KeyOf("s", "k"), field_ref=FieldOf("metadata.uid"))),)},
         "env[0].valueFrom", "not 2"),
        ({"env": (EnvironmentVariable("B", value_from=ValueFrom(KeyOf("S!", "k"))),)},
         "env[0].valueFrom.secretKeyRef.name", "not its content"),
        ({"env": (EnvironmentVariable("B", value_from=ValueFrom(config_map_key_ref=KeyOf("s", "k k"))),)},
         "env[0].valueFrom.configMapKeyRef.key", "not its value"),
        ({"env": (EnvironmentVariable("B", value_from=ValueFrom(field_ref=FieldOf("metadata.labels.app"))),)},
         "env[0].valueFrom.fieldRef.fieldPath", '"metadata.labels.app" is not a field that a variable can have'),
        ({"env_from": (EnvironmentSource(),)}, "envFrom[0]", "not 0"),
        ({"env_from": (EnvironmentSource("1", AllOf("s")),)}, "envFrom[0].prefix", "variable name"),
        ({"env_from": (EnvironmentSource(secret_ref=AllOf("S")),)}, "envFrom[0].secretRef.name", "not its content"),
        ({"affinity": {"nodeAffinity": {"x": "\x00"}}}, "affinity", "rejects"),
        ({"affinity": {"nodeAffinity": 1}}, "affinity.nodeAffinity", "a mapping"),
        ({"pod_template": {"spec": {"hostname": "\x7f"}}}, "podTemplate", "rejects"),
        ({"pod_template": {"spec": {"containers": [{"args": [f"hf_{'a' * 30}"]}]}}}, "podTemplate", "credential"),
        ({"pod_template": {"spec": {"containers": [{"env": [{"name": "DB_PASS", "value": "x"}]}]}}}, "podTemplate",
         "credential"),
        ({"affinity": required([])}, f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", "at least one"),
        ({"affinity": required([{}])}, f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]", "matches no node"),
        ({"security_context": {"runAsUser": 0}}, "securityContext.runAsUser", "restricted"),
        ({"container_security_context": {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}},
         "containerSecurityContext.capabilities.add", "restricted"),
        ({"container_security_context": {"allowPrivilegeEscalation": None}},
         "containerSecurityContext.allowPrivilegeEscalation", "must be false"),
    ],
)  # fmt: skip
def test_rejected(options: dict[str, Any], where: str, words: str) -> None:
    found = only_problem(**options)
    assert found.where == f"spec.pods.worker.{where}"
    assert words in found.message


def test_a_secret_is_not_repeated() -> None:
    found = only_problem(env=(EnvironmentVariable("B", value_from=ValueFrom(KeyOf("hunter2!", "k"))),))
    assert "hunter2" not in f"{found} {found.hint}"
    found = only_problem(env=(EnvironmentVariable("PASSWORD", "hunter2"),))
    assert "hunter2" not in f"{found} {found.hint}"
    assert "secretKeyRef" in found.hint


def test_what_violates_a_level_names_the_one_that_permits_it() -> None:
    root = {"runAsUser": 0, "runAsNonRoot": None}
    assert only_problem(security_context={"runAsUser": 0}).hint == "spec.security.podSecurity: baseline"
    assert validate(
        dataclasses.replace(GOOD, pods=Pods(PodOptions(security_context=root)), security=Security("baseline"))
    ) == []  # fmt: skip
    unconfined = {"seccompProfile": {"type": "Unconfined"}}
    assert only_problem("baseline", security_context=unconfined).hint == "spec.security.podSecurity: privileged"


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_directories_of_the_node_need_the_level_privileged(level: Any) -> None:
    storage = Storage((Volume("m", "/m", host_path="/d"),))
    [found] = validate(dataclasses.replace(GOOD, storage=storage, security=Security(level)))
    assert found.where == "spec.storage.volumes[0].hostPath"
    assert "--pod-security privileged" in found.hint
    assert validate(dataclasses.replace(GOOD, storage=storage, security=Security("privileged"))) == []

from __future__ import annotations

import copy
from typing import Any

import pytest

from rayllm_ctl.changes.rayjob import explain_rayjob
from rayllm_ctl.model.observed.changes import Running
from rayllm_ctl.model.text.hint import Hint
from tests.changes.services import cluster_spec, set_at


def job(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "batch", "namespace": "llm"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {"entrypoint": "python a.py", "rayClusterSpec": cluster_spec(), **spec},
    }


@pytest.mark.parametrize(
    ("path", "value", "effect", "words"),
    [
        (("entrypoint",), "python b.py", "not-rolled-out", "KubeRay ignores the change of a submitted job"),
        (("rayClusterSpec", "rayVersion"), "2.61.0", "not-rolled-out", "KubeRay ignores"),
        (("runtimeEnvYAML",), "env_vars: {A: '1'}", "not-rolled-out", "KubeRay ignores"),
        (("rayClusterSpec", "workerGroupSpecs", 0, "maxReplicas"), 9, "not-rolled-out", "KubeRay ignores"),
        (("activeDeadlineSeconds",), 60, "in-place", "reads it while the job runs"),
        (("backoffLimit",), 3, "in-place", "reads it while the job runs"),
        (("ttlSecondsAfterFinished",), 60, "in-place", "reads it while the job runs"),
        (("suspend",), True, "in-place", "deletes the RayCluster of the job"),
    ],
)
def test_what_becomes_of_a_field(path: tuple[str | int, ...], value: Any, effect: str, words: str) -> None:
    old = job()
    new = copy.deepcopy(old)
    set_at(*path, value=value)(new["spec"])
    found = explain_rayjob(old, new, Running())
    assert [change.effect for change in found.changes] == [effect]
    (only,) = found.consequences
    assert words in only.message
    assert only.hints == (
        (Hint("kubectl delete rayjob batch -n llm", "then submit it again"),) if effect == "not-rolled-out" else ()
    )


def test_a_job_that_is_no_longer_suspended_starts_again() -> None:
    (only,) = explain_rayjob(job(suspend=True), job(suspend=False), Running()).consequences
    assert "starts the job from the beginning" in only.message
    assert not only.outage


def test_a_config_map_that_its_pods_mount_is_named() -> None:
    def mounting(name: str) -> dict[str, Any]:
        found = job()
        pod = found["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        pod["volumes"] = [{"name": "settings", "configMap": {"name": name}}]
        return found

    (only,) = explain_rayjob(mounting("batch-settings-1"), mounting("batch-settings-2"), Running()).consequences
    assert "still mount ConfigMap batch-settings-1" in only.message
    assert "batch-settings-2" not in only.message


@pytest.mark.parametrize(("mode", "effect"), [("InteractiveMode", "in-place"), ("K8sJobMode", "not-rolled-out")])
def test_the_id_of_a_job_is_read_where_the_job_waits_for_it(mode: str, effect: str) -> None:
    old, new = job(submissionMode=mode), job(submissionMode=mode, jobId="mine")
    assert [change.effect for change in explain_rayjob(old, new, Running()).changes] == [effect]

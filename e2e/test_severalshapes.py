"""Several models in one service over simulated GPU nodes: the workers of each, and what a change does to the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import SCHEDULED_ON_SIMULATED, Bench, Object
from e2e.severalmodels import LLAMA, MIDDLE, QWEN, model, written

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.slow]


def groups(cluster: Object) -> dict[str, tuple[int, int]]:
    return {
        group["groupName"]: (group["minReplicas"], group["maxReplicas"])
        for group in cluster["spec"]["workerGroupSpecs"]
    }


def test_one_model_is_changed_scaled_added_and_removed_beside_another(simulated: Bench, tmp_path: Path) -> None:
    def spec_of(models: tuple[dict[str, Any], ...]) -> str:
        return written(tmp_path, *models, scheduling=SCHEDULED_ON_SIMULATED)

    def deploy(*models: dict[str, Any]) -> None:
        simulated.run("deploy", "-f", spec_of(models), "--offline", "-n", simulated.namespace)

    def diff(*models: dict[str, Any]) -> str:
        spec = spec_of(models)
        return simulated.run("diff", "-f", spec, "--offline", "-n", simulated.namespace, code=None).out

    large, small = model("large", LLAMA, 4), model("small", QWEN, 1)
    deploy(large, small)
    (cluster,) = simulated.items("rayclusters")
    assert groups(cluster) == {"ingress": (2, 8), "large": (1, 1), "small": (1, 1)}
    status = simulated.run("status", "chat", "-o", "json", "-n", simulated.namespace).json()
    assert (status["state"], status["replicasRunning"]) == ("Ready", 2)
    applications = [node["name"] for node in status["tree"] if node["kind"] == "application"]
    assert sorted(applications) == ["chat", "chat-large", "chat-small"]
    where = simulated.run("endpoint", "chat", "-o", "json", "-n", simulated.namespace).json()
    assert where["models"] == [LLAMA, QWEN]
    answer = simulated.run("chat", "chat", "--model", QWEN, "Hello", "-n", simulated.namespace)
    assert answer.out.strip()

    # Each replica runs on the workers of its model.
    served = json.loads(simulated.serve_answer(cluster["metadata"]["name"]))["applications"]
    pods = {pod["status"]["podIP"]: pod["metadata"]["labels"]["ray.io/group"] for pod in simulated.items("pods")}
    for app, group in (("chat", "ingress"), ("chat-large", "large"), ("chat-small", "small")):
        replicas = [one for found in served[app]["deployments"].values() for one in found["replicas"]]
        assert {pods[replica["node_ip"]] for replica in replicas} == {group}

    changed = model("small", QWEN, 1, engine={"maxNumSeqs": 16})
    said = diff(large, changed)
    assert "application chat-small: replicas restart" in said
    assert "no replica of application chat, chat-large restarts" in said
    more = model("small", QWEN, 1, replicas={"min": 1, "max": 3})
    deploy(large, more)
    (same,) = simulated.items("rayclusters")
    assert same["metadata"]["uid"] == cluster["metadata"]["uid"]
    assert groups(same)["small"] == (1, 3)

    third = model("third", MIDDLE, 1)
    deploy(large, more, third)
    (same,) = simulated.items("rayclusters")
    assert same["metadata"]["uid"] == cluster["metadata"]["uid"]
    assert list(groups(same)) == ["ingress", "large", "small", "third"]
    assert "KubeRay starts a second RayCluster" in diff(large)

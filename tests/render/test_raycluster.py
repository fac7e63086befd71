"""vLLM's own server on a RayCluster: what is rendered in mode raycluster."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_CLUSTER
from rayllm_ctl.model.plan.plan import Plan, PodSizes
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Replicas
from rayllm_ctl.planner.engine.server import command_line
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import schema_problems
from tests.render.drawn import for_planned
from tests.render.plans import H100, main_object, plan, tiny
from tests.render.test_goform import as_go_writes_cluster

GPU = LLMService("qwen", Model("Qwen/Qwen3-8B"), mode="raycluster", accelerator=Accelerator("gpu", "H100-80GB"))
CPU = LLMService(
    "tiny", Model("tiny", path="/m"), mode="raycluster", accelerator=Accelerator("cpu"), engine=Engine(image="r/i:1")
)
TWO_PODS = PodSizes("1", "8Gi", "18", "200Gi", 8, 2, 1.0)


def groups(its_plan: Plan) -> dict[str, dict[str, Any]]:
    cluster, *_ = render(its_plan)
    assert schema_problems(cluster) == []
    return {group["groupName"]: group for group in cluster["spec"]["workerGroupSpecs"]}


def container(group: dict[str, Any]) -> dict[str, Any]:
    [found] = group["template"]["spec"]["containers"]
    return dict(found)


def arguments(its_plan: Plan) -> list[str]:
    found: list[str] = container(groups(its_plan)["server"])["args"]
    return found


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"enforce_eager": True}, ["--enforce-eager"]),
        ({"enable_prefix_caching": False}, ["--no-enable-prefix-caching"]),
        ({"seed": 7, "gpu_memory_utilization": 0.9}, ["--seed=7", "--gpu-memory-utilization=0.9"]),
        ({"hf_overrides": {"a": [1, "ü"]}}, ['--hf-overrides={"a":[1,"ü"]}']),
        ({"middleware": ["a.B", "c.D"]}, ["--middleware", "a.B", "c.D"]),
        ({"tokenizer": "$(HOME)/$x"}, ["--tokenizer=$$(HOME)/$$x"]),
        ({"tokenizer": "-dash"}, ["--tokenizer=-dash"]),
    ],
)
def test_engine_arguments_are_written_as_vllm_reads_them(given: dict[str, Any], written: list[str]) -> None:
    assert list(command_line(given)) == written


def test_on_gpus_the_ray_executor_is_asked_for_and_on_cpus_it_is_not() -> None:
    assert "--distributed-executor-backend=ray" in arguments(plan(GPU, H100, tensor=4))
    assert not any("executor" in argument for argument in arguments(tiny(CPU)))


def test_the_users_executor_wins_where_a_replica_is_one_pod() -> None:
    service = dataclasses.replace(GPU, engine=Engine(args={"distributed_executor_backend": "mp"}))
    written = [argument for argument in arguments(plan(service, H100, tensor=4)) if "executor" in argument]
    assert written == ["--distributed-executor-backend=mp"]


def test_a_replica_of_several_pods_has_one_server() -> None:
    three = dataclasses.replace(GPU, replicas=Replicas(3, 3))
    found = groups(plan(three, H100, tensor=8, pipeline=2, pods=TWO_PODS))
    assert [(name, group["minReplicas"], group["maxReplicas"]) for name, group in found.items()] == [
        ("server", 3, 3), ("workers", 3, 3),
    ]  # fmt: skip
    assert "args" not in container(found["workers"])
    assert container(found["workers"])["resources"] == container(found["server"])["resources"]


@pytest.mark.parametrize(
    ("replicas", "engine", "version", "code"),
    [
        (2, Engine(), "0.20.0", "replicas-take-each-other-s-gpus"),
        (1, Engine(args={"distributed_executor_backend": "mp"}), "0.29.0", "executor-within-a-pod"),
    ],
)
def test_what_a_replica_of_several_pods_cannot_have(replicas: int, engine: Engine, version: str, code: str) -> None:
    service = dataclasses.replace(GPU, replicas=Replicas(replicas, replicas), engine=engine)
    its_plan = plan(service, H100, tensor=8, pipeline=2, pods=TWO_PODS, vllm_version=version)
    assert [reason.code for reason in its_plan.reasons] == [code]
    assert its_plan.verdict == "invalid"
    with pytest.raises(UserError):
        render(its_plan)


def test_the_start_up_limit_is_the_plan_s() -> None:
    server = container(groups(plan(GPU, H100, wait_seconds=1805))["server"])
    probe = server["startupProbe"]
    assert 1805 <= probe["periodSeconds"] * probe["failureThreshold"] < 1815
    assert server["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}


def test_answers_may_end_before_the_pod_is_killed() -> None:
    [drain] = [a for a in arguments(plan(GPU, H100)) if a.startswith("--shutdown-timeout=")]
    grace = groups(plan(GPU, H100))["server"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > int(drain.partition("=")[2])
    assert not [a for a in arguments(plan(GPU, H100, vllm_version="0.17.0")) if "shutdown" in a]


def test_the_service_selects_the_servers_and_no_other_pod() -> None:
    cluster, service, *_ = render(plan(GPU, H100, tensor=8, pipeline=2, pods=TWO_PODS))
    assert service["metadata"]["name"] == RAY_CLUSTER.serve_service("qwen") == "qwen-openai"
    assert service["spec"]["selector"] == {"ray.io/cluster": "qwen", "ray.io/group": "server"}
    ports = container(cluster["spec"]["workerGroupSpecs"][0])["ports"]
    assert [(port["name"], port["containerPort"]) for port in ports] == [("serve", 8000)]


def test_the_container_ends_with_ray_with_the_server_and_when_it_is_told_to(tmp_path: Any) -> None:
    """The script runs in a real shell, with stand-ins for Ray and vLLM."""
    server = container(groups(tiny(CPU))["server"])
    for name, text in {"python3": 'echo "$@" > said; exec sleep $SERVER', "vllm": ""}.items():
        if text:
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)

    def run(ray: str, seconds: str, *, stop: bool = False, first: str = "") -> int:
        """The exit code of the container; ``first`` runs when Ray and the server are started."""
        environment = {
            **os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "KUBERAY_GEN_RAY_START_CMD": ray, "SERVER": seconds,
        }  # fmt: skip
        text = server["command"][2].replace("sleep 5", "sleep 0.2").replace("server=$!", f"server=$!\n{first}")
        script = [*server["command"][:2], text, *server["command"][3:]]
        process = subprocess.Popen([*script, *server["args"]], env=environment, cwd=tmp_path, start_new_session=True)
        try:
            if stop:
                deadline = time.monotonic() + 30
                while not handles(process.pid, signal.SIGTERM):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                process.terminate()
            return process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    assert run("exit 3", "3600") == 3
    assert run("exit 3", "3600", first="while [ -d /proc/$ray ]; do sleep 0.01; done") == 3
    assert run("sleep 3600", "0", first="while [ -d /proc/$server ]; do sleep 0.01; done") == 0
    assert run("sleep 3600", "0.1") == 0
    assert run("sleep 3600", "3600", stop=True) == 128 + signal.SIGTERM
    assert (tmp_path / "said").read_text().split()[:4] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "/m"]


@for_planned
def test_whatever_goes_in_the_objects_are_valid_and_kuberay_writes_them_back_unchanged(
    case: tuple[LLMService, Plan],
) -> None:
    service, before = case
    layout, pods = before.parallelism, before.pods
    assert layout is not None
    fixed = dataclasses.replace(
        service, mode="raycluster", replicas=Replicas(1, 1), engine=dataclasses.replace(service.engine, args={})
    )
    if service.accelerator.kind == "cpu":
        its_plan = tiny(fixed)
    else:
        its_plan = plan(fixed, before.gpu, tensor=layout.tensor, pipeline=layout.pipeline, pods=pods)
    made = render(its_plan)
    cluster = main_object(made)
    in_front = made[made.index(cluster) + 1]
    assert schema_problems(cluster) == []
    written = as_go_writes_cluster(cluster["spec"])
    assert written == cluster["spec"]
    assert in_front["metadata"].get("namespace") == cluster["metadata"].get("namespace")


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return caught is not None and bool(int(caught[1], 16) >> number - 1 & 1)

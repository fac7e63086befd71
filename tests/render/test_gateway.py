"""What is rendered for a gateway: its settings, code and Secrets, and a Redis; and the recipe of an image with it."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from rayllm_ctl.catalog.releases import DEFAULT
from rayllm_ctl.changes.rayservice import explain_rayservice
from rayllm_ctl.model.observed.changes import Running
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.gateway import PROXY_CALLBACK, Gateway, Keys, Limits, Queue, Rates, Redis
from rayllm_ctl.model.spec.pod_security import violations
from rayllm_ctl.model.spec.service import Accelerator, Adapter, Engine, LLMService, Model
from rayllm_ctl.planner.deployment.gateway import gateway_config
from rayllm_ctl.planner.deployment.images import STREAMER_PACKAGES
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import schema_problems
from rayllm_ctl.render.servingcode import PACKAGE, batch_files, files, requirements, storage_files
from rayllm_ctl.serving.gateway.user_config import read_gateway
from rayllm_ctl.specfile import load_file
from rayllm_ctl.workflows.plan.image import image_recipe
from rayllm_ctl.workflows.plan.model import make_plan
from tests.model.services import services
from tests.render.drawn import has_a_runtime
from tests.render.plans import tiny
from tests.render.test_goform import as_go_writes

IMAGE = Engine(image="r.example/gateway:1", env={"PYTHONPATH": "/mine"}, max_model_len=1024)
SERVICE = LLMService("chat", Model("tiny", path="/m"), engine=IMAGE, accelerator=Accelerator("cpu"), gateway=Gateway())
WITH_REDIS = replace(SERVICE, gateway=Gateway(keys=Keys(), limits=Limits(Rates("1/hour"), redis=Redis(managed=True))))
SPECS = sorted((Path(__file__).parent / "specs").glob("gateway-with-*.yaml"))


@pytest.fixture(autouse=True)
def serving_code() -> None:
    """The code as it is, where the other tests of this folder have a line in its place."""


def planned(service: LLMService) -> Plan:
    return make_plan(service, OFFLINE)


def rendered(service: LLMService) -> dict[str, dict[str, Any]]:
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in render(planned(service))}


def pods(service: LLMService) -> dict[str, dict[str, Any]]:
    """The specs of the pods by the names of their groups."""
    cluster = rendered(service)["RayService/chat"]["spec"]["rayClusterConfig"]
    workers = {group["groupName"]: group["template"]["spec"] for group in cluster["workerGroupSpecs"]}
    return {"head": cluster["headGroupSpec"]["template"]["spec"], **workers}


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") or one["valueFrom"] for one in pod["containers"][0].get("env", [])}


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_the_gateway_reads_its_settings(spec: Path) -> None:
    plan = planned(load_file(spec))
    assert plan.deployment is not None
    settings = read_gateway(plan.deployment.gateway)
    assert settings is not None
    assert settings.limits is not None
    assert settings.limits.per_key.requests is not None
    assert settings.keys is not None


def test_the_defaults_are_those_of_the_gateway() -> None:
    assert read_gateway(gateway_config(SERVICE, [])) == read_gateway({})


def test_code_in_the_image_is_not_mounted() -> None:
    service = replace(SERVICE, engine=replace(IMAGE, serving_code="image"))
    assert set(rendered(service)) == {"RayService/chat"}
    for pod in pods(service).values():
        assert environment(pod)["PYTHONPATH"] == "/mine"
        assert "serving" not in [one["name"] for one in pod.get("volumes", [])]


def test_the_proxies_in_all_pods_run_their_part_of_the_gateway() -> None:
    module, _, name = next(iter(PROXY_CALLBACK.values())).partition(":")
    assert hasattr(import_module(module), name)
    for served in (SERVICE, replace(SERVICE, engine=replace(IMAGE, serving_code="image"))):
        assert all(environment(pod).items() >= PROXY_CALLBACK.items() for pod in pods(served).values())
    adapted = replace(SERVICE, gateway=None, model=replace(SERVICE.model, adapters=(Adapter("sql", "/adapters/sql"),)))
    assert not any(environment(pod).keys() & PROXY_CALLBACK.keys() for pod in pods(adapted).values())


def test_only_pods_of_the_ingress_have_its_secrets() -> None:
    found = pods(WITH_REDIS)
    assert [name for name, pod in found.items() if "RAYLLM_REDIS_PASSWORD" in environment(pod)] == ["ingress"]
    password = environment(found["ingress"])["RAYLLM_REDIS_PASSWORD"]
    assert password == {"secretKeyRef": {"name": "chat-redis", "key": "password"}}
    mounting = [name for name, pod in found.items() if "api-keys" in [one["name"] for one in pod.get("volumes", [])]]
    assert mounting == ["ingress"]
    # Keys may be required later without a second Ray cluster.
    without = pods(replace(WITH_REDIS, gateway=replace(WITH_REDIS.gateway, keys=None)))  # type: ignore[type-var]
    assert without == found


def test_the_image_must_have_the_packages_for_limits() -> None:
    public = replace(WITH_REDIS, engine=Engine(), model=Model("Qwen/Qwen3-8B"), accelerator=Accelerator(gpu="L40S"))
    plan = planned(public)
    assert (plan.verdict, [reason.code for reason in plan.reasons]) == ("invalid", ["image-lacks-packages"])
    mirrored = replace(public, engine=Engine(image=f"mirror.example/{DEFAULT.image}"))
    assert planned(mirrored).verdict == "invalid"
    assert planned(replace(public, gateway=Gateway(keys=Keys()))).runs
    own = planned(replace(public, engine=Engine(image=f"mirror.example/{DEFAULT.image}-gateway")))
    assert own.runs
    assert any("must contain limits and redis" in note for note in own.notes)


def test_the_redis_is_restricted_and_takes_any_password(tmp_path: Path) -> None:
    found = rendered(WITH_REDIS)
    pod = found["Deployment/chat-redis"]["spec"]["template"]["spec"]
    assert list(violations(pod, "restricted")) == []
    assert (
        found["Service/chat-redis"]["spec"]["selector"]
        == found["Deployment/chat-redis"]["spec"]["template"]["metadata"]["labels"]
    )
    [container] = pod["containers"]
    program = tmp_path / "redis-server"
    program.write_text('#!/bin/sh\necho "$@"\ncat\n')
    program.chmod(0o755)
    password = "a\"b\\c$HOME `x` 'd"
    done = subprocess.run(
        container["command"], env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RAYLLM_REDIS_PASSWORD": password},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    arguments, *lines = done.stdout.splitlines()
    assert arguments == "-"
    assert 'requirepass "a\\"b\\\\c$HOME `x` \'d"' in lines
    assert lines[0] == "port 6379"


def test_the_recipe_needs_no_other_file() -> None:
    text = image_recipe(Engine())
    written = dict(
        re.findall(r'^COPY <<"END_OF_FILE" /opt/rayllm/serving/(\S+)\n(.*?)^END_OF_FILE$', text, re.M | re.S)
    )
    assert written == {**storage_files(), **batch_files(), **files()}
    assert f"FROM {DEFAULT.image}\n" in text
    for requirement in (*requirements(), *requirements("gpu"), *requirements("streaming")):
        assert re.fullmatch(r"[a-z-]+(\[[a-z0-9,]+\])?==[0-9.]+", requirement)
        assert requirement in text
    assert requirements("streaming")[0].startswith(f"{STREAMER_PACKAGES}==")
    assert {one.partition("==")[0] for one in requirements("gpu")} == {"accelerate", "bitsandbytes"}
    assert text.splitlines()[-1] == "USER 1000:100"
    assert "FROM r.example/base:1\n" in image_recipe(Engine(image="r.example/base:1"))
    assert {path.relative_to(PACKAGE.parents[1]).as_posix() for path in PACKAGE.rglob("*.py")} < set(written)


@settings(max_examples=15)
@given(services(on_cpu=True, with_gateway=True).filter(has_a_runtime))
def test_whatever_goes_in_the_objects_are_valid_and_kuberay_writes_them_back_unchanged(service: LLMService) -> None:
    made = render(tiny(service))
    assert [problem for item in made for problem in schema_problems(item)] == []
    [rayservice] = (item for item in made if item["kind"] == "RayService")
    assert as_go_writes(rayservice) == rayservice
    config = yaml.safe_load(rayservice["spec"]["serveConfigV2"])
    assert read_gateway(config["applications"][0]["deployments"][0]["user_config"]["gateway"]) is not None


def test_diff_says_what_changes_restart() -> None:
    before = rendered(SERVICE)["RayService/chat"]
    settings = replace(SERVICE, gateway=Gateway(keys=Keys(), queue=Queue(5)))
    found = explain_rayservice(before, rendered(settings)["RayService/chat"], Running())
    assert {(change.field, change.effect) for change in found.changes} == {
        ("gateway.keys", "in-place"),
        ("gateway.queue", "in-place"),
    }
    [consequence] = found.consequences
    assert consequence.message.endswith("applies it in place: no replica restarts")
    other = json.loads(json.dumps(before).replace("chat-serving-", "chat-serving-1"))
    found = explain_rayservice(before, other, Running())
    assert {(change.field, change.effect) for change in found.changes} == {
        ("code of models and proxies", "new-cluster")
    }
    [consequence] = found.consequences
    assert consequence.effect == "new-cluster"
    assert "The code of models and proxies changes to that of this version" in consequence.message


def test_other_code_of_the_ingress_restarts_its_replicas_alone() -> None:
    before = rendered(SERVICE)["RayService/chat"]
    digest = re.search(r"RAYLLM_INGRESS_CODE: \W?(\w+)", before["spec"]["serveConfigV2"])
    assert digest is not None
    other = json.loads(json.dumps(before).replace(digest[1], "0123456789abcdef"))
    found = explain_rayservice(
        before, other, Running(replicas={"chat/OpenAiIngress": 2, "chat-tiny/LLMServer:tiny": 1})
    )
    assert {(change.field, change.effect) for change in found.changes} == {("code of the ingress", "restart")}
    restarted, others = found.consequences
    assert restarted.effect == "restart"
    assert not restarted.outage
    assert "OpenAiIngress (2 replicas, 1 at a time)" in restarted.message
    assert others.message == "no replica of application chat-tiny restarts"


def test_the_serve_configuration_is_one_document() -> None:
    config = yaml.safe_load(rendered(WITH_REDIS)["RayService/chat"]["spec"]["serveConfigV2"])
    [ingress, _] = config["applications"]
    gateway = ingress["deployments"][0]["user_config"]["gateway"]
    assert gateway["limits"]["redis"] == {"url": "redis://chat-redis:6379/0", "prefix": "chat"}
    assert gateway["keys"] == {"directory": "/etc/rayllm/keys"}

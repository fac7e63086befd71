"""The layout with a Serve application for each model and one for the ingress in front of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import yaml

from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.changes.rayservice import explain_rayservice
from rayllm_ctl.model.observed.changes import Running
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.gateway import Gateway, Keys, Queue, Validation
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Replicas
from rayllm_ctl.planner.deployment.deployment import with_deployment
from rayllm_ctl.planner.deployment.gateway import gateway_config
from rayllm_ctl.render import render
from rayllm_ctl.serveconfig.check import read_serve_config
from tests.render.plans import H100, plan

SERVICE = LLMService("chat", Model("Qwen/Qwen3-32B"), replicas=Replicas(min=0, max=3))
GATEWAY = Gateway(Validation(max_body_bytes="1Mi"))
SETTINGS = gateway_config(replace(SERVICE, gateway=GATEWAY), [])


def with_gateway(gateway: Gateway, service: LLMService = SERVICE) -> Plan:
    service = replace(service, gateway=gateway)
    return with_deployment(plan(service, H100, tensor=2), service, resolve_release(service.engine))


def manifest(gateway: Gateway, service: LLMService = SERVICE) -> dict[str, Any]:
    (found,) = (item for item in render(with_gateway(gateway, service)) if item["kind"] == "RayService")
    return found


def test_the_ingress_is_an_application_of_its_own_on_its_own_workers() -> None:
    made = manifest(GATEWAY)
    config = read_serve_config(made["spec"]["serveConfigV2"], "rendered")
    assert not config.notes
    ingress, model = config.data["applications"]
    assert (ingress["name"], ingress["route_prefix"], "args" in ingress) == ("chat", "/", False)
    assert (model["name"], model["route_prefix"]) == ("chat-qwen3-32b", None)
    assert model["args"]["model_loading_config"] == {"model_id": "Qwen/Qwen3-32B", "model_source": "Qwen/Qwen3-32B"}
    assert model["args"]["engine_kwargs"]["tensor_parallel_size"] == 2
    (front,) = ingress["deployments"]
    assert front["user_config"] == {
        "models": [
            {
                "id": "Qwen/Qwen3-32B",
                "application": model["name"],
                "deployment": model["deployments"][0]["name"],
                "maxModelLen": 8192,
                "tokenizer": "Qwen/Qwen3-32B",
                "adapters": [],
            }
        ],
        "gateway": SETTINGS,
    }
    # The model sleeps, the ingress does not: it has a worker without GPUs, and no other worker has its resource.
    assert front["autoscaling_config"]["min_replicas"] == 2
    assert model["deployments"][0]["autoscaling_config"]["min_replicas"] == 0
    first, second = made["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (first["groupName"], first["minReplicas"], first["maxReplicas"]) == ("ingress", 2, 8)
    assert json.loads(first["rayStartParams"]["resources"].strip("'")) == front["ray_actor_options"]["resources"]
    assert float(first["rayStartParams"]["num-cpus"]) >= front["ray_actor_options"]["num_cpus"]
    assert "nvidia.com/gpu" not in first["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (second["groupName"], second["minReplicas"]) == ("gpu", 0)
    assert made["metadata"]["annotations"] == {"rayllm.io/model": "Qwen/Qwen3-32B"}


def test_a_change_of_the_gateway_restarts_nothing() -> None:
    found = explain_rayservice(manifest(GATEWAY), manifest(replace(GATEWAY, keys=Keys(), queue=Queue(9))), Running())
    assert {change.effect for change in found.changes} == {"in-place"}
    assert [one.effect for one in found.consequences] == ["in-place"]


def test_a_change_of_the_model_does_not_restart_the_ingress() -> None:
    other = LLMService("chat", SERVICE.model, replicas=SERVICE.replicas, engine=Engine(args={"seed": 3}))
    found = explain_rayservice(manifest(GATEWAY), manifest(GATEWAY, other), Running())
    (restart,) = (one for one in found.consequences if one.effect == "restart")
    assert "chat-qwen3-32b" in restart.message
    assert "OpenAiIngress" not in restart.message


def test_one_model_without_a_gateway_has_one_application() -> None:
    made = render(plan(SERVICE, H100))[0]
    (application,) = yaml.safe_load(made["spec"]["serveConfigV2"])["applications"]
    assert application["import_path"] == "ray.serve.llm:build_openai_app"
    assert len(made["spec"]["rayClusterConfig"]["workerGroupSpecs"]) == 1

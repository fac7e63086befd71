"""What rendered manifests say, whatever goes in."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest
import yaml

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.kube.model_downloads import VOLUME_NAMES
from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.plan.plan import GPUChoice, Plan, Reason
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model, Replicas, Scheduling, Toleration
from rayllm_ctl.model.text.yaml_text import dump_all
from rayllm_ctl.planner.deployment.model_files import reads_hub
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import schema_problems
from tests.render.drawn import for_planned
from tests.render.plans import H100, MI300X, RTX_4090, main_object, plan, tiny

GPU = LLMService("qwen", Model("Qwen/Qwen3-8B"), accelerator=Accelerator("gpu", "H100-80GB"))
CPU = LLMService("tiny", Model("tiny", path="/m"), accelerator=Accelerator("cpu"), engine=Engine(image="r/i:1"))


def rendered(its_plan: Plan) -> dict[str, Any]:
    manifest = main_object(render(its_plan))
    assert schema_problems(manifest) == []
    return manifest


def serve_config(manifest: dict[str, Any]) -> dict[str, Any]:
    config = yaml.load(manifest["spec"]["serveConfigV2"], Loader=yaml.CSafeLoader)
    [application] = config["applications"]
    found: dict[str, Any] = application
    return found


def worker_group(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    return found


def container(group: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = group["template"]["spec"]["containers"][0]
    return found


@for_planned
def test_what_is_rendered_is_what_readers_read_and_always_the_same(case: tuple[LLMService, Plan]) -> None:
    its_plan = case[1]
    manifests = render(its_plan)
    text = dump_all(manifests)
    assert list(yaml.load_all(text, Loader=yaml.CSafeLoader)) == manifests
    assert dump_all(render(its_plan)) == text
    assert text.endswith("\n")
    assert "\r" not in text


@for_planned
def test_what_the_user_wrote_arrives(case: tuple[LLMService, Plan]) -> None:
    service, its_plan = case
    manifest = rendered(its_plan)
    [model] = serve_config(manifest)["args"]["llm_configs"]
    for name, value in service.engine.args.items():
        assert model["engine_kwargs"][name] == value
    head = manifest["spec"]["rayClusterConfig"]["headGroupSpec"]
    for group, options in ((head, service.pods.head), (worker_group(manifest), service.pods.worker)):
        given_env = {variable["name"]: variable.get("value", "") for variable in container(group).get("env", [])}
        written = {variable.name: variable.value or "" for variable in options.env}
        assert given_env.items() >= {**service.engine.env, **written}.items()
        assert list(given_env)[len(given_env) - len(written) :] == list(written)
        assert group["template"]["metadata"]["labels"] == {**options.labels, "rayllm.io/service": service.name}
        assert group["template"]["metadata"].get("annotations", {}) == options.annotations
        assert len(container(group).get("envFrom", [])) == len(options.env_from)
        assert ("HF_TOKEN" in given_env) == (service.model.token_secret is not None and reads_hub(service))
        mounts = {mount["name"]: mount["mountPath"] for mount in container(group).get("volumeMounts", [])}
        own = {volume.name: volume.mount_path for volume in service.storage.volumes}
        assert {name: path for name, path in mounts.items() if name not in VOLUME_NAMES} == own
        volumes = [volume["name"] for volume in group["template"]["spec"].get("volumes", [])]
        sources = [name for name in volumes if name not in ("autoscaler-token", *VOLUME_NAMES)]
        assert sources == list(own)
        assert mounts.keys() <= set(volumes)
    assert container(head)["image"] == service.engine.image
    limits = container(worker_group(manifest))["resources"]["limits"]
    assert limits["memory"] == (its_plan.pods and its_plan.pods.worker_memory)


@for_planned
def test_replicas_fit_into_the_workers(case: tuple[LLMService, Plan]) -> None:
    """Ray's demand of the most replicas is exactly what the most workers offer, and one worker never holds two."""
    service, its_plan = case
    assert its_plan.pods is not None
    assert its_plan.parallelism is not None
    manifest = rendered(its_plan)
    group, application = worker_group(manifest), serve_config(manifest)
    [model] = application["args"]["llm_configs"]
    engine, ingress = application["deployments"]
    bundle, processes = model["placement_group_config"]["bundle_per_worker"], its_plan.parallelism.gpus_per_replica
    cpus = int(group["rayStartParams"]["num-cpus"])
    actor = model["deployment_config"]["ray_actor_options"]["num_cpus"]
    per_replica = actor + bundle.get("CPU", 0) * processes
    offered = json.loads(group["rayStartParams"].get("resources", "'{}'")[1:-1])
    assert service.scheduling.ray_resources.items() <= bundle.items()
    for name in service.scheduling.ray_resources:
        assert offered[name] * its_plan.pods.workers_per_replica >= bundle[name] * processes
        assert isinstance(offered[name], int)
    assert cpus >= per_replica + application["args"]["ingress_deployment_config"]["ray_actor_options"]["num_cpus"]
    limits = container(group)["resources"]["limits"]
    gpus = int(next((amount for name, amount in limits.items() if name.endswith("gpu")), "0"))
    bounds = engine["autoscaling_config"]
    if service.accelerator.kind == "cpu":
        assert gpus == 0
        assert cpus < 2 * per_replica
    else:
        assert gpus * its_plan.pods.workers_per_replica == processes
        assert group["maxReplicas"] * gpus == bounds["max_replicas"] * processes
    assert group["maxReplicas"] == bounds["max_replicas"] * its_plan.pods.workers_per_replica
    assert group["minReplicas"] == bounds["min_replicas"] * its_plan.pods.workers_per_replica
    assert (ingress["autoscaling_config"]["min_replicas"] == 0) == (bounds["min_replicas"] == 0)


@for_planned
def test_autoscaling_is_always_explicit(case: tuple[LLMService, Plan]) -> None:
    manifest = rendered(case[1])
    cluster, group = manifest["spec"]["rayClusterConfig"], worker_group(manifest)
    for deployment in serve_config(manifest)["deployments"]:
        scaling = deployment["autoscaling_config"]
        assert 1 <= scaling["target_ongoing_requests"] < 1_000_000
        assert scaling["min_replicas"] <= scaling["max_replicas"]
    engine = serve_config(manifest)["deployments"][0]
    assert engine["max_ongoing_requests"] >= engine["autoscaling_config"]["target_ongoing_requests"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["autoscalerOptions"]["version"] == "v2"
    assert "replicas" not in group


@for_planned
def test_the_head_serves_nothing_and_kuberay_finds_its_ports(case: tuple[LLMService, Plan]) -> None:
    head = rendered(case[1])["spec"]["rayClusterConfig"]["headGroupSpec"]
    assert head["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    assert not any(name.endswith("gpu") for name in container(head)["resources"]["limits"])
    assert {port["name"] for port in container(head)["ports"]} >= {"serve", "dashboard", "gcs-server", "client"}


def test_a_change_of_bounds_restarts_nothing() -> None:
    """Serve restarts all replicas when an application's args change, KubeRay makes a new cluster for anything else."""

    def without_bounds(replicas: Replicas) -> dict[str, Any]:
        service = dataclasses.replace(GPU, replicas=replicas)
        manifest = copy.deepcopy(rendered(plan(service, H100)))
        group, application = worker_group(manifest), serve_config(manifest)
        del group["minReplicas"], group["maxReplicas"], application["deployments"]
        manifest["spec"]["serveConfigV2"] = application
        manifest["spec"].pop("excludeHeadPodFromServeSvc", None)  # the operator reads it each time
        return manifest

    assert without_bounds(Replicas(1, 2)) == without_bounds(Replicas(2, 9, 7, 1.0, 2.0, 3.0))
    assert without_bounds(Replicas(1, 1)) == without_bounds(Replicas(1, 2))


def test_the_engine_s_deployment_has_ray_s_name() -> None:
    # As recorded from Ray 2.60: the application's status lists LLMServer:<id with / as -- and . as _>.
    service = dataclasses.replace(GPU, model=Model("meta-llama/Llama-3.1-70B-Instruct"))
    names = [deployment["name"] for deployment in serve_config(rendered(plan(service, H100)))["deployments"]]
    assert names == ["LLMServer:meta-llama--Llama-3_1-70B-Instruct", "OpenAiIngress"]


def test_tensor_parallelism_stays_on_one_node() -> None:
    one = serve_config(rendered(plan(GPU, H100, tensor=4)))["args"]["llm_configs"][0]
    assert one["placement_group_config"] == {"strategy": "STRICT_PACK", "bundle_per_worker": {"GPU": 1}}
    two = serve_config(rendered(plan(GPU, H100, tensor=4, pipeline=2)))["args"]["llm_configs"][0]
    assert two["placement_group_config"]["strategy"] == "PACK"
    group = worker_group(rendered(plan(GPU, H100, tensor=4, pipeline=2)))
    assert (group["minReplicas"], container(group)["resources"]["limits"]["nvidia.com/gpu"]) == (2, "4")


def test_ray_s_autoscaler_learns_the_accelerator_type() -> None:
    params = worker_group(rendered(plan(GPU, H100)))["rayStartParams"]
    assert json.loads(params["resources"][1:-1]) == {"accelerator_type:H100": 1}
    model = serve_config(rendered(plan(GPU, RTX_4090)))["args"]["llm_configs"][0]
    assert model["accelerator_config"] == {"kind": "gpu"}
    assert "resources" not in worker_group(rendered(plan(GPU, RTX_4090)))["rayStartParams"]


def test_nodes_are_found_by_any_label_of_the_gpu_unless_the_user_names_them() -> None:
    spec = worker_group(rendered(plan(GPU, H100)))["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == sorted(H100.node_labels)
    service = dataclasses.replace(
        GPU, scheduling=Scheduling({"pool": "gpu"}, (Toleration("team", "search", "NoSchedule"), Toleration("spot")))
    )
    manifest = rendered(plan(service, H100))
    spec = worker_group(manifest)["template"]["spec"]
    assert "affinity" not in spec
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert spec["tolerations"][:2] == [
        {"key": "team", "operator": "Equal", "value": "search", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert "nodeSelector" not in manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]


def test_other_vendors_have_their_own_resource_and_need_an_image() -> None:
    with pytest.raises(UsageError, match="no public image with Ray and vLLM for MI300X"):
        render(plan(GPU, MI300X))
    service = dataclasses.replace(GPU, engine=Engine(image="r/rocm:1"))
    group = worker_group(rendered(plan(service, MI300X)))
    assert container(group)["resources"]["limits"]["amd.com/gpu"] == "1"
    assert {"key": "amd.com/gpu", "operator": "Exists"} in group["template"]["spec"]["tolerations"]


def test_a_cpu_service_needs_an_image() -> None:
    service = dataclasses.replace(CPU, engine=Engine())
    with pytest.raises(UsageError, match="for CPUs") as caught:
        render(tiny(service))
    assert "--image" in caught.value.hints[0]


def test_the_image_goes_with_ray() -> None:
    service = dataclasses.replace(GPU, engine=Engine(ray_version="2.58.0"))
    manifest = rendered(plan(service, H100))
    assert container(worker_group(manifest))["image"] == "rayproject/ray-llm:2.58.0-py312-cu130"
    assert manifest["spec"]["rayClusterConfig"]["rayVersion"] == "2.58.0"
    assert manifest["metadata"]["labels"]["app.kubernetes.io/version"] == "0.26.0"


def test_the_token_is_a_reference_on_head_and_workers() -> None:
    service = dataclasses.replace(GPU, model=Model("m", token_secret=SecretKey("hf", "token")))
    manifest = rendered(plan(service, H100))
    for group in (manifest["spec"]["rayClusterConfig"]["headGroupSpec"], worker_group(manifest)):
        secrets = [variable for variable in container(group)["env"] if "valueFrom" in variable]
        assert secrets == [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]


def test_ray_s_limit_for_starting_is_only_raised() -> None:
    def limit(wait: int, env: dict[str, str]) -> str | None:
        service = dataclasses.replace(GPU, engine=Engine(env=env))
        variables = container(worker_group(rendered(plan(service, H100, wait_seconds=wait)))).get("env", [])
        return next((v["value"] for v in variables if v["name"] == "RAYLLM_ENGINE_START_TIMEOUT_S"), None)

    assert limit(600, {}) is None
    assert limit(3601, {}) == "7200"
    assert limit(9000, {"RAYLLM_ENGINE_START_TIMEOUT_S": "60"}) == "60"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAY_grpc_client_keepalive_timeout_ms", "3000"),
        ("RAY_health_check_failure_threshold", "1"),
        ("RAY_health_check_period_ms", "1000"),
        ("RAY_health_check_timeout_ms", "50000"),
    ],
)
def test_ray_notices_a_lost_node_unless_the_user_says_when(name: str, value: str) -> None:
    def limits(env: dict[str, str]) -> list[str | None]:
        manifest = rendered(plan(dataclasses.replace(GPU, engine=Engine(env=env)), H100))
        groups = (manifest["spec"]["rayClusterConfig"]["headGroupSpec"], worker_group(manifest))
        return [one["value"] for group in groups for one in container(group)["env"] if one["name"] == name]

    assert limits({}) == [value, value]
    assert limits({name: "60000"}) == ["60000", "60000"]


def test_the_longest_name() -> None:
    service = dataclasses.replace(GPU, name="x" * 47)
    manifest = rendered(plan(service, H100))
    assert manifest["metadata"]["name"] == "x" * 47
    assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == "x" * 47


def test_a_plan_that_does_not_run_is_not_rendered() -> None:
    bad = Plan("does-not-fit", "m", "x", (Reason("weights", "weights need 17 GiB of 15"),))
    with pytest.raises(UserError, match="does-not-fit: weights need 17 GiB of 15"):
        render(bad)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("spec", "serviceUnhealthySecondThreshold"), 300, "serviceUnhealthySecondThreshold"),
        (("spec", "rayClusterConfig", "rayVersion"), 2.6, "rayVersion"),
        (("spec", "rayClusterConfig", "headGroupSpec", "tamplate"), {}, "tamplate"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "maxReplicas"), "2", "maxReplicas"),
        (("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "serviceAccount"), "x", "serviceAccount"),
    ],
)  # fmt: skip
def test_what_kuberay_would_refuse_is_found_here(path: tuple[Any, ...], value: Any, words: str) -> None:
    manifest = copy.deepcopy(rendered(plan(GPU, H100)))
    parent: Any = manifest
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    [problem] = schema_problems(manifest)
    assert words in str(problem)


def test_quantities_are_kubernetes_own() -> None:
    resources = container(worker_group(rendered(plan(GPU, H100))))["resources"]
    for amounts in resources.values():
        assert all(parse_quantity(amount) > 0 for amount in amounts.values())


def test_no_gpu_label_no_affinity() -> None:
    bare = GPUChoice("X", 1, None)
    assert "affinity" not in worker_group(rendered(plan(GPU, bare)))["template"]["spec"]

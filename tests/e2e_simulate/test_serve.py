"""The life of an application on simulated pods, asked over HTTP as the operator asks."""

from __future__ import annotations

import json

import pytest

from e2e.simulate.serve import HEALTH_CHECK_FAILED

from .conftest import SERVER, Simulation, llm_config, pod


def test_application_is_built_then_starts_then_runs(one_worker: Simulation) -> None:
    assert one_worker.put(llm_config()) == (200, "")
    fresh = one_worker.app()
    assert (fresh["status"], fresh["deployments"], fresh["route_prefix"]) == ("DEPLOYING", {}, None)

    one_worker.now += 1
    built = one_worker.app()
    assert built["status"] == "DEPLOYING"
    assert list(built["deployments"]) == [SERVER, "OpenAiIngress"]
    server = built["deployments"][SERVER]
    assert (server["status"], server["status_trigger"]) == ("UPDATING", "CONFIG_UPDATE_STARTED")
    assert [replica["state"] for replica in server["replicas"]] == ["STARTING"]
    assert server["replicas"][0]["node_ip"] == "127.0.0.3"

    one_worker.now += 3
    running = one_worker.app()
    assert (running["status"], running["message"]) == ("RUNNING", "")
    server = running["deployments"][SERVER]
    assert (server["status"], server["status_trigger"]) == ("HEALTHY", "CONFIG_UPDATE_COMPLETED")
    assert server["replicas"][0]["replica_id"] == built["deployments"][SERVER]["replicas"][0]["replica_id"]


def test_same_config_again_changes_nothing_and_a_new_one_restarts(one_worker: Simulation) -> None:
    one_worker.put(llm_config())
    before = one_worker.settle()
    one_worker.put(llm_config())
    assert one_worker.app() == before
    one_worker.put(llm_config(engine_kwargs={"tensor_parallel_size": 4, "max_num_seqs": 8}))
    after = one_worker.app()
    assert after["status"] == "DEPLOYING"
    assert after["last_deployed_time_s"] > before["last_deployed_time_s"]


def test_replicas_fill_the_gpus_and_the_next_one_waits(one_worker: Simulation) -> None:
    one_worker.put(llm_config(deployment_config={"num_replicas": 3}))
    app = one_worker.settle()
    replicas = app["deployments"][SERVER]["replicas"]
    assert [replica["state"] for replica in replicas] == ["RUNNING", "RUNNING", "STARTING"]
    assert "node_id" not in replicas[2]
    assert app["status"] == "DEPLOYING"
    one_worker.table.put(pod("worker-2", "127.0.0.4"))
    assert one_worker.settle()["status"] == "RUNNING"


def test_unschedulable_replica_waits_for_ever_with_serves_own_words(one_worker: Simulation) -> None:
    one_worker.put(llm_config(engine_kwargs={"tensor_parallel_size": 16}))
    assert one_worker.settle()["deployments"][SERVER]["message"] == ""
    one_worker.now += 30
    app = one_worker.app()
    bundles = [{"accelerator_type:H100": 0.001, "GPU": 1.0, "CPU": 1.0}] + [
        {"accelerator_type:H100": 0.001, "GPU": 1.0}
    ] * 15
    assert app["status"] == "DEPLOYING"
    message = app["deployments"][SERVER]["message"]
    assert message.startswith(
        f"Deployment '{SERVER}' in application 'llm' has 1 replicas that have taken more than 30s to be scheduled."
    )
    assert message.endswith("total resources available: {}. Use `ray status` for more details.")
    required = message.partition("Resources required for each replica: ")[2].partition(", total")[0]
    assert json.loads(required) == bundles


def test_strict_pack_needs_the_gpus_on_one_pod(one_worker: Simulation) -> None:
    one_worker.table.put(pod("worker-1", "127.0.0.3", gpus=2.0))
    one_worker.table.put(pod("worker-2", "127.0.0.4", gpus=2.0))
    one_worker.put(llm_config())
    assert one_worker.settle()["status"] == "DEPLOYING"
    one_worker.put(llm_config(placement_group_config={"strategy": "PACK", "bundle_per_worker": {"GPU": 1}}))
    assert one_worker.settle()["status"] == "RUNNING"


def test_gpus_of_another_kind_do_not_count(one_worker: Simulation) -> None:
    one_worker.table.put(pod("worker-1", "127.0.0.3", accelerator="L4"))
    one_worker.put(llm_config())
    assert one_worker.settle()["status"] == "DEPLOYING"


def test_pod_that_is_not_ready_does_not_count(one_worker: Simulation) -> None:
    one_worker.table.put(pod("worker-1", "127.0.0.3", ready=False))
    one_worker.put(llm_config())
    assert one_worker.settle()["status"] == "DEPLOYING"


def test_lost_worker_makes_the_service_unhealthy_until_another_takes_over(one_worker: Simulation) -> None:
    one_worker.put(llm_config())
    before = one_worker.settle()["deployments"][SERVER]["replicas"][0]["replica_id"]
    one_worker.table.remove("uid-llm-abc-worker-1")
    lost = one_worker.app()
    server = lost["deployments"][SERVER]
    assert (lost["status"], lost["message"]) == (
        "UNHEALTHY",
        f"The deployments ['{SERVER}', 'OpenAiIngress'] are UNHEALTHY.",
    )
    assert (server["status"], server["status_trigger"]) == ("UNHEALTHY", "HEALTH_CHECK_FAILED")
    assert server["message"] == HEALTH_CHECK_FAILED
    one_worker.table.put(pod("worker-2", "127.0.0.4"))
    recovered = one_worker.settle()
    assert recovered["status"] == "RUNNING"
    assert recovered["deployments"][SERVER]["status_trigger"] == "UNSPECIFIED"
    assert recovered["deployments"][SERVER]["replicas"][0]["replica_id"] != before


def test_applications_that_left_the_config_are_deleted(one_worker: Simulation) -> None:
    config = llm_config()
    other = {**config["applications"][0], "name": "other", "route_prefix": "/other"}
    one_worker.put({"applications": [*config["applications"], other]})
    assert set(one_worker.details()["applications"]) == {"llm", "other"}
    one_worker.put(config)
    assert set(one_worker.details()["applications"]) == {"llm"}
    one_worker.put({"applications": []})
    assert one_worker.details()["applications"] == {}
    assert one_worker.details()["controller_info"]["actor_name"] == "SERVE_CONTROLLER_ACTOR"
    one_worker.ask("DELETE", "/api/serve/applications/")
    assert one_worker.details()["applications"] == one_worker.details()["controller_info"] == {}


@pytest.mark.parametrize(
    ("scaling", "replicas"),
    [
        ({"min_replicas": 2, "max_replicas": 4}, 2),
        ({"min_replicas": 0, "initial_replicas": 1, "max_replicas": 4}, 1),
        ({"min_replicas": 0, "max_replicas": 4}, 0),
    ],
)
def test_autoscaled_deployment_has_its_first_replicas(
    one_worker: Simulation, scaling: dict[str, int], replicas: int
) -> None:
    one_worker.put(llm_config(deployment_config={"autoscaling_config": scaling}))
    app = one_worker.settle()
    assert app["status"] == "RUNNING"
    assert app["deployments"][SERVER]["target_num_replicas"] == replicas
    assert len(app["deployments"][SERVER]["replicas"]) == replicas
    assert len(app["deployments"]["OpenAiIngress"]["replicas"]) == min(replicas, 1)


def test_what_the_config_says_of_a_deployment_by_name_wins(one_worker: Simulation) -> None:
    config = llm_config()
    config["applications"][0]["deployments"] = [{"name": SERVER, "autoscaling_config": {"min_replicas": 2}}]
    one_worker.put(config)
    assert one_worker.settle()["deployments"][SERVER]["target_num_replicas"] == 2


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "applications\n  Field required"),
        ({"applications": [{"name": "a"}]}, "applications.0.import_path\n  Field required"),
        (
            {"applications": [{"name": "a", "import_path": "m:a"}, {"name": "b", "import_path": "m:b"}]},
            "duplicate route_prefix: ['/']",
        ),
    ],
)
def test_config_that_serve_refuses(one_worker: Simulation, config: dict[str, object], text: str) -> None:
    status, said = one_worker.put(config)
    assert status == 400
    assert text in said
    assert one_worker.details()["applications"] == {}


def test_models_that_are_applications_of_their_own_answer_behind_the_ingress(one_worker: Simulation) -> None:
    name = "meta-llama/Llama-3.1-70B"
    (model,) = llm_config(placement_group_config={"strategy": "PACK", "bundle_per_worker": {"GPU": 1, "model:a": 1}})[
        "applications"
    ][0]["args"]["llm_configs"]
    front = {"name": "OpenAiIngress", "ray_actor_options": {"num_cpus": 1, "resources": {"rayllm-ingress": 1}}}
    front["user_config"] = {"models": [{"id": name, "application": "llm-a", "deployment": SERVER}]}
    ingress = {"name": "llm", "route_prefix": "/", "import_path": "rayllm_ctl.serving.ingress:build"}
    alone = {"name": "llm-a", "route_prefix": None, "import_path": "rayllm_ctl.serving.model:build", "args": model}
    config = {"applications": [{**ingress, "deployments": [front]}, alone, {**alone, "name": "llm-b"}]}
    assert one_worker.put(config) == (200, "")
    one_worker.settle()
    states = {key: app["status"] for key, app in one_worker.details()["applications"].items()}
    assert states == {"llm": "DEPLOYING", "llm-a": "DEPLOYING", "llm-b": "DEPLOYING"}  # no node has the resources
    one_worker.table.put(pod("worker-1", "127.0.0.3", custom={"model:a": 4.0}))
    one_worker.table.put(pod("worker-2", "127.0.0.4", gpus=0.0, cpus=1.0, custom={"rayllm-ingress": 1.0}))
    one_worker.settle()
    apps = one_worker.details()["applications"]
    assert [apps[key]["status"] for key in ("llm", "llm-a", "llm-b")] == ["RUNNING", "RUNNING", "DEPLOYING"]
    assert apps["llm-a"]["deployment_topology"]["ingress_deployment"] == SERVER
    assert apps["llm"]["deployments"]["OpenAiIngress"]["replicas"][0]["node_ip"] == "127.0.0.4"
    listed = json.loads(one_worker.ask("GET", "/v1/models", port="proxy")[1])
    assert [one["id"] for one in listed["data"]] == [name]

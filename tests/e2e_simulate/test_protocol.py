"""The answers' form: the fields of recorded answers of Ray 2.60, jobs, and OpenAI's API on the proxy."""

from __future__ import annotations

import json

from .conftest import SERVER, Simulation, llm_config, pod

MODEL = "meta-llama/Llama-3.1-70B"

# Fields of GET /api/serve/applications/ as Ray 2.60.0 gave them.
APPLICATION = {
    "name",
    "route_prefix",
    "docs_path",
    "status",
    "message",
    "last_deployed_time_s",
    "deployed_app_config",
    "source",
    "deployments",
    "external_scaler_enabled",
    "deployment_topology",
}
DEPLOYMENT = {
    "name",
    "status",
    "status_trigger",
    "message",
    "deployment_config",
    "target_num_replicas",
    "required_resources",
    "replicas",
    "recent_dead_replicas",
}
REPLICA = {
    "node_id",
    "node_ip",
    "node_instance_id",
    "actor_id",
    "actor_name",
    "worker_id",
    "log_file_path",
    "replica_id",
    "state",
    "pid",
    "start_time_s",
}
WAITING_REPLICA = {"actor_name", "replica_id", "state", "start_time_s"}


def test_serve_answer_has_rays_fields(one_worker: Simulation) -> None:
    one_worker.put(llm_config(deployment_config={"num_replicas": 3}))
    app = one_worker.settle()
    assert set(app) == APPLICATION
    server = app["deployments"][SERVER]
    assert set(server) == DEPLOYMENT
    assert [set(replica) for replica in server["replicas"]] == [REPLICA, REPLICA, WAITING_REPLICA]
    assert server["replicas"][0]["actor_name"].startswith(f"SERVE_REPLICA::llm#{SERVER}#")
    assert app["deployment_topology"]["ingress_deployment"] == "OpenAiIngress"
    proxies = one_worker.details()["proxies"].values()
    assert {proxy["node_ip"]: proxy["status"] for proxy in proxies} == {"127.0.0.2": "HEALTHY", "127.0.0.3": "HEALTHY"}


def test_health_and_version(one_worker: Simulation) -> None:
    for path in ("/api/gcs_healthz", "/api/local_raylet_healthz", "/api/healthz"):
        assert one_worker.ask("GET", path, address="127.0.0.3") == (200, "success")
    assert json.loads(one_worker.ask("GET", "/api/version")[1])["ray_version"] == "2.60.0"
    assert one_worker.ask("GET", "/api/version", address="127.0.0.3")[0] == 404


def test_job_runs_and_succeeds(one_worker: Simulation) -> None:
    request = {"entrypoint": "python batch.py", "submission_id": "job-1"}
    assert json.loads(one_worker.ask("POST", "/api/jobs/", request)[1])["submission_id"] == "job-1"
    assert one_worker.ask("POST", "/api/jobs/", request)[0] == 400
    assert json.loads(one_worker.ask("GET", "/api/jobs/job-1")[1])["status"] == "RUNNING"
    one_worker.now += 5
    ended = json.loads(one_worker.ask("GET", "/api/jobs/job-1")[1])
    assert (ended["status"], ended["end_time"]) == ("SUCCEEDED", 1005000)
    assert "python batch.py" in json.loads(one_worker.ask("GET", "/api/jobs/job-1/logs")[1])["logs"]
    assert one_worker.ask("GET", "/api/jobs/none")[0] == 404


def test_job_fails_or_is_stopped(one_worker: Simulation) -> None:
    one_worker.ask("PUT", "/_simulate", {"job_status": "FAILED", "job_message": "exit code 1"})
    for name in ("a", "b"):
        one_worker.ask("POST", "/api/jobs/", {"entrypoint": "x", "submission_id": name})
    assert json.loads(one_worker.ask("POST", "/api/jobs/b/stop")[1]) == {"stopped": True}
    one_worker.now += 9
    ended = {job["submission_id"]: job for job in json.loads(one_worker.ask("GET", "/api/jobs/")[1])}
    assert (ended["a"]["status"], ended["a"]["message"]) == ("FAILED", "exit code 1")
    assert ended["b"]["status"] == "STOPPED"


def chat(simulation: Simulation, **changes: object) -> tuple[int, str]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello now"}], **changes}
    return simulation.ask("POST", "/v1/chat/completions", body, port="proxy")


def test_proxy_answers_as_openai(one_worker: Simulation) -> None:
    one_worker.ask("PUT", "/_simulate", {"tokens_per_second": 0})
    one_worker.put(llm_config())
    one_worker.settle()
    assert one_worker.ask("GET", "/-/healthz", port="proxy") == (200, "success")
    assert json.loads(one_worker.ask("GET", "/-/routes", port="proxy")[1]) == {"/": "llm"}
    models = json.loads(one_worker.ask("GET", "/v1/models", port="proxy")[1])
    assert [model["id"] for model in models["data"]] == [MODEL]
    status, text = chat(one_worker, max_tokens=5)
    answer = json.loads(text)
    assert status == 200
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["message"]["content"].split()) == 5


def test_proxy_streams(one_worker: Simulation) -> None:
    one_worker.ask("PUT", "/_simulate", {"tokens_per_second": 0})
    one_worker.put(llm_config())
    one_worker.settle()
    _, text = chat(one_worker, max_tokens=3, stream=True, stream_options={"include_usage": True})
    events = text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    said = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    assert len(said.split()) == 3
    assert chunks[-1]["usage"]["completion_tokens"] == 3
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


def test_proxy_refuses_what_serve_would(one_worker: Simulation) -> None:
    one_worker.table.put(pod("worker-2", "127.0.0.4"))
    assert one_worker.ask("GET", "/-/healthz", port="proxy")[0] == 503
    one_worker.put(llm_config())
    one_worker.now += 1
    one_worker.app()
    assert chat(one_worker)[0] == 503
    one_worker.settle()
    assert chat(one_worker, model="other")[0] == 404
    assert one_worker.ask("GET", "/-/healthz", port="proxy", address="127.0.0.4")[0] == 503

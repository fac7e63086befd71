"""`logs`: which logs are read, how their lines are told apart, and what is said where there are none."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_raycluster import KIND
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cluster.fakeapi import FakeAPI, Request

SERVE = "-head-svc:dashboard/proxy/api/serve/applications/$"
RAY_LOG = "-head-svc:dashboard/proxy/api/v0/logs/(file|stream)$"
HEAD, WORKER = "tiny-bcdfg-head", "tiny-bcdfg-worker"


def replica(letter: str, pod: str, **more: str) -> dict[str, Any]:
    ids = {"actor_id": letter * 32, "node_id": f"node-of-{pod}", "node_instance_id": pod, "replica_id": letter}
    return {**ids, "state": "RUNNING", "log_file_path": f"/serve/replica_{letter}.log", **more}


def serving(api: FakeAPI, **replicas: list[dict[str, Any]]) -> None:
    """Let Serve say which replicas its deployments have."""
    names = {"models": "LLMServer:tiny", "ingress": "Ingress"}
    deployments = {names[key]: {"status": "HEALTHY", "replicas": found} for key, found in replicas.items()}
    api.answer("GET", SERVE, (200, {"applications": {"tiny": {"status": "RUNNING", "deployments": deployments}}}))


def ray_log(request: Request) -> tuple[int, bytes]:
    query = request.query
    name = query.get("filename") or f"{query['actor_id'][0]}.{query['suffix']}"
    return 200, f"{name} first\n{name} last {query['lines']}\n".encode()


@pytest.fixture
def deployed(deploy: Deploy, api: FakeAPI) -> None:
    deploy(*TINY)
    serving(api, models=[replica("a", WORKER)])
    api.answer("GET", RAY_LOG, ray_log)
    api.answer("GET", f"/pods/{HEAD}/log$", lambda request: (200, f"head {request.query}".encode()))
    api.answer("GET", f"/pods/{WORKER}/log$", lambda request: (200, f"worker {request.query['previous']}\n".encode()))


@pytest.mark.usefixtures("deployed")
def test_one_replica_has_no_prefix(run: Run, api: FakeAPI) -> None:
    result = run("logs", "tiny")
    assert (result.code, result.err) == (0, "")
    assert result.out == "serve/replica_a.log first\nserve/replica_a.log last 200\n"
    asked = next(request for request in api.requests if "/v0/logs/" in request.path)
    assert (asked.query["node_id"], asked.path.rpartition("/")[2]) == (f"node-of-{WORKER}", "file")


@pytest.mark.usefixtures("deployed")
def test_several_replicas_are_told_apart_by_pod_and_in_one_pod_by_file(run: Run, api: FakeAPI) -> None:
    serving(api, models=[replica("a", "w1"), replica("b", "w2")], ingress=[replica("c", "w2"), replica("d", "w3")])
    assert run("logs", "tiny", "--grep", "first").out.splitlines() == [
        "[w1] serve/replica_a.log first",
        "[w2/replica_b.log] serve/replica_b.log first",
        "[w2/replica_c.log] serve/replica_c.log first",
        "[w3] serve/replica_d.log first",
    ]


@pytest.mark.usefixtures("deployed")
def test_the_engine_is_what_the_replicas_of_models_print(run: Run, api: FakeAPI) -> None:
    serving(api, models=[replica("a", "w1")], ingress=[replica("c", "w2")])
    assert run("logs", "tiny", "--engine", "--tail", "7").out.splitlines() == [
        "[w1/aaaaaaaa.out] a.out first",
        "[w1/aaaaaaaa.out] a.out last 7",
        "[w1/aaaaaaaa.err] a.err first",
        "[w1/aaaaaaaa.err] a.err last 7",
    ]


@pytest.mark.usefixtures("deployed")
def test_containers(run: Run) -> None:
    head = run("logs", "tiny", "--head", "--tail", "3").out
    assert "'container': 'ray-head'" in head
    assert "'tailLines': '3'" in head
    assert "tailLines" not in run("logs", "tiny", "--head", "--tail", "-1").out
    assert run("logs", "tiny", "--previous").out == "worker true\n"
    assert run("logs", "tiny", "--replica", WORKER, "--previous").out == "worker true\n"
    assert run("logs", "tiny", "--replica", WORKER).out.startswith("serve/replica_a.log")
    assert run("logs", "tiny", "--replica", HEAD).out.startswith("head ")


@pytest.mark.usefixtures("deployed")
def test_grep_searches_all_of_a_log_unless_told_otherwise(run: Run) -> None:
    assert run("logs", "tiny", "--grep", "last").out == "serve/replica_a.log last -1\n"
    assert run("logs", "tiny", "--grep", "last", "--tail", "9").out == "serve/replica_a.log last 9\n"
    assert run("logs", "tiny", "--grep", "nothing").out == ""


@pytest.mark.usefixtures("deployed")
def test_a_log_that_cannot_be_read_is_noted_beside_others(run: Run, api: FakeAPI) -> None:
    serving(api, models=[replica("a", "w1"), replica("b", "w2")])
    api.answer(
        "GET", RAY_LOG, lambda request: (500, b"a file is not found") if "replica_a" in str(request.query) else None
    )
    result = run("logs", "tiny")
    assert result.code == 0
    assert result.out.splitlines()[0] == "[w2] serve/replica_b.log first"
    assert result.err == "replica_a.log of w1 could not be read: a file is not found\n"
    api.answer("GET", RAY_LOG, (500, b"gone"))
    result = run("logs", "tiny")
    assert result.code == 1
    assert "✗ replica_b.log of w2 could not be read: gone" in result.err


@pytest.mark.usefixtures("deployed")
def test_errors_name_what_there_is(run: Run, api: FakeAPI) -> None:
    result = run("logs", "tiny", "--replica", "tiny-bcdfg-wroker")
    assert result.code == 1
    assert 'tiny has no pod "tiny-bcdfg-wroker"' in result.err
    assert f"hint: rayllm-ctl logs tiny -n llm --replica {WORKER}\n" in result.err
    assert f"--replica {HEAD}\n" in result.err
    serving(api, models=[])
    assert "tiny has no replicas now" in run("logs", "tiny").err
    api.answer("GET", SERVE, (503, b"no"))
    assert "Serve state of RayCluster tiny-bcdfg could not be read" in run("logs", "tiny").err
    assert "there is no service tine in namespace llm" in run("logs", "tine").err


@pytest.mark.usefixtures("deployed")
def test_the_operator(run: Run, api: FakeAPI) -> None:
    assert "no pod of the KubeRay operator can be found" in run("logs", "tiny", "--operator").err
    where = {"namespace": "kuberay-system", "labels": {"app.kubernetes.io/name": "kuberay-operator"}}
    api.put(kind="Pod", metadata={"name": "op-1", **where}, spec={"containers": [{"name": "manager"}]}, status={})
    api.answer("GET", "/namespaces/kuberay-system/pods/op-1/log$", (200, b"reconciled\n"))
    assert run("logs", "tiny", "--operator").out == "reconciled\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--head", "--engine"), "exclude each other"),
        (("--replica", "x", "--operator"), "exclude each other"),
        (("--engine", "--previous"), "--previous is about containers"),
        (("--tail", "0"), '"0" is neither a number of lines nor -1'),
    ],
)
def test_usage(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run("logs", "tiny", *arguments)
    assert result.code == 2
    assert said in result.err


def test_vllms_own_servers_log_in_their_containers(run: Run, deploy: Deploy, api: FakeAPI) -> None:
    deploy(*TINY, *KIND)
    api.answer("GET", "/pods/tiny-server/log$", (200, b"vLLM API server\n"))
    for more in ((), ("--engine",)):
        assert run("logs", "tiny", *more).out == "vLLM API server\n"


@pytest.mark.usefixtures("deployed")
def test_rights(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("logs")
    api.granted = grants(*rights.needed, *rights.display)
    assert run("logs", "tiny").code == 0
    assert run("logs", "tiny", "--head").code == 0
    assert api.denied == []
    api.granted = grants(*rights.needed)
    assert run("logs", "tiny").code == 0
    api.granted = set()
    result = run("logs", "tiny")
    assert result.code == 5
    assert "not permitted to get rayservices.ray.io, get rayclusters.ray.io, list pods" in result.err


@pytest.mark.usefixtures("deployed")
def test_replicas_are_unknown_while_the_dashboard_does_not_reach_serves_controller(run: Run, api: FakeAPI) -> None:
    api.answer("GET", SERVE, (200, {"controller_info": {}, "applications": {}}))
    reason = "Serve state of RayCluster tiny-bcdfg could not be read: Ray's dashboard does not reach Serve's controller"
    result = run("logs", "tiny")
    assert result.code == 1, str(result)
    assert f"✗ {reason}\nwhich replicas tiny has is unknown\n" in result.err
    assert "hint: rayllm-ctl status tiny -n llm" in result.err
    assert "rayllm-ctl logs tiny -n llm --head    # the container in which Serve starts" in result.err
    assert "has no replicas" not in result.err

    api.answer("GET", f"/pods/{WORKER}/log$", (200, b"ray started\n"))
    pod = run("logs", "tiny", "--replica", WORKER)
    assert (pod.code, pod.out) == (0, "ray started\n"), str(pod)
    assert pod.err == f"{reason}; this is the log of the pod's container, and replicas in it may have others\n"


@pytest.mark.usefixtures("deployed")
def test_a_pod_is_no_replica_where_serve_says_so(run: Run, api: FakeAPI) -> None:
    serving(api, models=[replica("a", WORKER)])
    assert run("logs", "tiny", "--replica", HEAD).err == ""


@pytest.mark.usefixtures("deployed")
def test_a_second_ray_cluster_that_cannot_be_asked_is_noted_beside_the_logs_of_the_first(
    run: Run, api: FakeAPI
) -> None:
    item = api.stored("RayService", "tiny")
    api.put(**{**item, "status": {**item["status"], "pendingServiceStatus": {"rayClusterName": "tiny-zzzzz"}}})
    made = api.stored("RayCluster", "tiny-bcdfg")
    api.put(**{**made, "metadata": {**made["metadata"], "name": "tiny-zzzzz", "uid": "second"}, "status": {}})
    serving(api, models=[replica("a", WORKER)])
    api.answer("GET", SERVE, lambda request: (503, b"no") if "tiny-zzzzz" in request.path else None)
    result = run("logs", "tiny")
    assert (result.code, result.out.splitlines()[:1]) == (0, ["serve/replica_a.log first"]), str(result)
    assert result.err == "Serve state of RayCluster tiny-zzzzz could not be read: no\n"


@pytest.mark.usefixtures("deployed")
def test_the_job_that_downloads_the_model(run: Run, api: FakeAPI) -> None:
    """The newest pod of each Job: those before it have failed."""
    labels = {"app.kubernetes.io/component": "model-download", "rayllm.io/service": "tiny"}
    for pod, created, job in (("m-a", "10:00", "m"), ("m-b", "10:05", "m"), ("n-a", "09:00", "n")):
        mine = labels | {"batch.kubernetes.io/job-name": job}
        metadata = {"name": pod, "labels": mine, "creationTimestamp": f"2026-03-01T{created}:00Z"}
        api.put(kind="Pod", metadata=metadata, spec={"containers": [{"name": "download"}]})
        api.answer("GET", f"/pods/{pod}/log$", (200, f"log of {pod}\n".encode()))
    assert run("logs", "tiny", "--download").out.splitlines() == ["[m-b] log of m-b", "[n-a] log of n-a"]
    # `deploy` and the controller apply the service after the download.
    api.remove("RayService", "tiny")
    assert run("logs", "tiny", "--download").out.splitlines() == ["[m-b] log of m-b", "[n-a] log of n-a"]
    assert run("logs", "tiny").code == 1


@pytest.mark.usefixtures("deployed")
def test_a_service_that_downloads_nothing(run: Run) -> None:
    result = run("logs", "tiny", "--download")
    assert result.code == 1
    assert "tiny has no pod that downloads a model" in result.err

"""Mode raycluster: vLLM's own server, for real on CPU through losses to its end."""

from __future__ import annotations

import http.client
import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from e2e.harness import Bench, Object, Result
from e2e.load import Load
from e2e.outages import lost
from e2e.running import Running

pytestmark = pytest.mark.xdist_group("raycluster")

NAME = "own"
FLAGS = ("--kind", "raycluster", "--max-model-len", "1024")


def state(bench: Bench) -> Any:
    """What `status` says; it looks again where a busy API server has not answered it."""

    def said() -> Any:
        result = bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None)
        health = result.json()
        return None if health["state"] == "Unknown" and "no answer within" in result.out else health

    return bench.wait("an answer of the API server", said, timeout=120)


def pod(bench: Bench, selector: str) -> Object:
    """The pod of a selector that is not being deleted."""
    found = bench.items("pods", f"ray.io/cluster={NAME},{selector}")
    [live] = [item for item in found if "deletionTimestamp" not in item["metadata"]]
    return live


def ask(bench: Bench) -> str:
    return bench.run("chat", NAME, "Hello", "-n", bench.namespace, "--max-tokens", "12", "--seed", "1").out


def outage(bench: Bench) -> Any:
    """Wait until `status` says that nothing answers; that."""

    def down() -> Any:
        health = state(bench)
        return health if health["endpoints"] == 0 else None

    return bench.wait("nothing answers", down, timeout=300)


def recovered(bench: Bench) -> list[Any]:
    """What `status` says from now until the service is Ready."""
    looks: list[Any] = []

    def back() -> bool:
        looks.append(state(bench))
        return bool(looks[-1]["state"] == "Ready")

    bench.wait("Ready again", back, timeout=300)
    return looks


@pytest.fixture(scope="module")
def deployed(shared: Bench) -> Result:
    """What `deploy` said. The server answers."""
    return shared.run(*shared.tiny(NAME, *FLAGS))


@pytest.fixture(scope="module")
def server(deployed: Result, shared: Bench) -> Bench:
    """The namespace of the server."""
    assert deployed.code == 0
    return shared


def test_deploy_waits_until_the_server_answers(deployed: Result, shared: Bench) -> None:
    assert f"http://{NAME}-openai.{shared.namespace}:8000/v1" in deployed.err, str(deployed)
    health = state(shared)
    assert (health["state"], health["replicasRunning"], health["endpoints"]) == ("Ready", 1, 1), health
    assert len(ask(shared).split()) >= 3
    url = shared.run("endpoint", NAME, "-n", shared.namespace).out.strip()
    assert url == f"http://{NAME}-openai.{shared.namespace}:8000/v1"


def test_a_second_deploy_changes_nothing(server: Bench) -> None:
    before = pod(server, "ray.io/group=server")["metadata"]["uid"]
    result = server.run(*server.tiny(NAME, *FLAGS))
    assert "unchanged" in result.err, str(result)
    assert "configured" not in result.err, str(result)
    assert pod(server, "ray.io/group=server")["metadata"]["uid"] == before


def test_the_other_mode_is_rejected_under_the_same_name(server: Bench) -> None:
    result = server.run(*server.tiny(NAME), code=1)
    assert f"raycluster/{NAME} exists" in result.err, str(result)
    assert not server.items("rayservices")


@pytest.mark.slow
def test_bench_says_what_the_server_did_meanwhile(server: Bench) -> None:
    load = ("--concurrency", "2", "--duration", "8s", "--output-tokens", "32", "--set", "ignore_eos=true")
    [result] = server.run("bench", NAME, "-n", server.namespace, *load, "-o", "json").json()["runs"]
    most = result["service"]["max"]
    assert result["service"]["problems"] == []
    assert (most["replicas"], most["wanted"], most["preemptions"]) == (1, 1, 0)
    # vLLM's own gauge is 0 at most moments where answers take milliseconds.
    assert 0 <= most["running"] <= 2


def counted_tokens(bench: Bench) -> int:
    """How many tokens vLLM has generated."""
    name = pod(bench, "ray.io/group=server")["metadata"]["name"]
    text = bench.kubectl("get", "--raw", f"/api/v1/namespaces/{bench.namespace}/pods/{name}:8000/proxy/metrics")
    found = re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", text, re.M)
    return round(sum(map(float, found)))


@pytest.mark.slow
def test_top_shows_the_tokens_that_the_server_counts(server: Bench) -> None:
    begun = time.monotonic()
    top = Running(server, "top", NAME, "-n", server.namespace, "--watch", "--interval", "1s", "-o", "json")
    top.prints()
    top.process.send_signal(signal.SIGSTOP)  # the whole load is between two of its readings
    before = counted_tokens(server)
    with server.proxied(f"{NAME}-openai") as url, Load(url, "tiny", clients=2, max_tokens=64) as load:
        server.wait("answers", lambda: load.answered >= 60, timeout=300)
    assert not load.failed, load.failed
    generated = load.answered * load.max_tokens
    assert counted_tokens(server) == before + generated
    seen = len(top.out)
    top.process.send_signal(signal.SIGCONT)
    lines = top.prints(seen + 3)
    known = time.monotonic() - begun
    top.interrupt()
    code, err = top.ended()
    assert code == 130, err
    pod_of_server = pod(server, "ray.io/group=server")
    replicas = [replica for line in lines for replica in json.loads(line)["replicas"]]
    assert len(replicas) == len(lines)
    assert {(one["model"], one["pod"], one["node"]) for one in replicas} == {
        ("tiny", pod_of_server["metadata"]["name"], pod_of_server["spec"]["nodeName"]),
    }
    first, *rates = (one["generationTokensPerSecond"] for one in replicas)
    assert first is None
    [rate] = [one for one in rates if one]
    # The two readings are no closer than the load was long, and no farther apart than the test was from first to last.
    assert generated / known <= rate <= generated / load.now
    assert all(0 <= one["running"] <= 2 and 0 <= one["kvCacheUsage"] <= 1 for one in replicas)
    assert {one["gpus"] for one in replicas} == {None}
    assert err.count("no GPUs: the pods request none") == 1


def test_the_dashboard_is_forwarded(server: Bench) -> None:
    process = server.start("dashboard", NAME, "-n", server.namespace, "--port", "0")
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/api/version", timeout=60) as answer:
        assert json.load(answer)["ray_version"]
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert b"<html" in answer.read().lower()
    process.terminate()
    process.wait(10)


def models(url: str) -> int:
    """The status of the answer to GET /models; 503 that of port-forward itself, 0 of any other failure."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=30) as answer:
            assert [one["id"] for one in json.load(answer)["data"]] == ["tiny"]
            return int(answer.status)
    except urllib.error.HTTPError as error:
        own = '"code": "service_unavailable"' in error.read().decode()
        return error.code if own else 0
    except (OSError, http.client.HTTPException):
        return 0


def answers(url: str, count: int) -> Counter[int]:
    """How many of `count` requests, each of its own connection, had which status."""
    with ThreadPoolExecutor(4) as clients:
        return Counter(clients.map(models, [url] * count))


@pytest.mark.slow
def test_it_recovers_from_the_loss_of_its_server_behind_a_forwarded_port(server: Bench) -> None:
    forward = Running(server, "port-forward", NAME, "-n", server.namespace, "--port", "0")
    url = forward.prints()[0].strip()
    assert answers(url, 500) == {200: 500}
    name = pod(server, "ray.io/group=server")["metadata"]["name"]
    with lost(server, name):
        server.wait("requests get 503", lambda: models(url) == 503, timeout=300)
        down = outage(server)
    assert down["state"] == "Degraded", down
    looks = [down, *recovered(server)]
    server.wait("the port leads to the new pod", lambda: models(url) == 200, timeout=300)
    assert answers(url, 500) == {200: 500}
    forward.interrupt()
    code, err = forward.ended()
    assert (code, len(forward.out)) == (130, 1), err
    assert err.splitlines()[0] == "model tiny", err
    assert err.count("requests are answered with 503") == 1, err
    assert err.count(f"service {server.namespace}/{NAME}-openai answers again") == 1, err
    assert {look["state"] for look in looks} <= {"Ready", "Degraded"}, [look["message"] for look in looks]
    assert not any(cause["terminal"] for look in looks for cause in look["causes"])
    assert len(ask(server).split()) >= 3


@pytest.mark.slow
def test_it_recovers_from_the_loss_of_the_head(server: Bench) -> None:
    before = pod(server, "ray.io/group=server")
    head = pod(server, "ray.io/node-type=head")["metadata"]["name"]
    with lost(server, head):
        down = outage(server)
        assert "HeadDown" in {cause["code"] for cause in down["causes"]}, down
    recovered(server)
    now = pod(server, "ray.io/group=server")
    assert now["metadata"]["uid"] == before["metadata"]["uid"], "the container restarts; the pod keeps its place"
    restarts = [one["status"]["containerStatuses"][0]["restartCount"] for one in (before, now)]
    assert restarts[1] > restarts[0]
    assert len(ask(server).split()) >= 3


def test_delete_leaves_nothing(server: Bench) -> None:
    server.run("delete", NAME, "-n", server.namespace)
    assert not server.items("rayclusters")
    assert not server.items("pods")
    assert not [item for item in server.items("services") if item["metadata"]["name"].startswith(NAME)]

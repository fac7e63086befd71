"""Mode raycluster: vLLM's own server, for real on CPU through losses to its end."""

from __future__ import annotations

import http.client
import json
import signal
import time
import urllib.error
import urllib.request
from typing import Any

from e2e.harness import Bench, Object
from e2e.load import Load

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


def recovered(bench: Bench) -> list[Any]:
    """Looks at the service from now until it is Ready again, having been seen not to answer."""
    looks: list[Any] = []

    def back() -> bool:
        looks.append(state(bench))
        return looks[-1]["state"] == "Ready" and any(look["endpoints"] == 0 for look in looks)

    bench.wait("an outage, and Ready again", back, timeout=240)
    return looks


def test_deploy_waits_until_the_server_answers(shared: Bench) -> None:
    result = shared.run(*shared.tiny(NAME, *FLAGS))
    assert f"http://{NAME}-openai.{shared.namespace}:8000/v1" in result.err, str(result)
    health = state(shared)
    assert (health["state"], health["replicasRunning"], health["endpoints"]) == ("Ready", 1, 1), health
    assert len(ask(shared).split()) >= 3
    url = shared.run("endpoint", NAME, "-n", shared.namespace).out.strip()
    assert url == f"http://{NAME}-openai.{shared.namespace}:8000/v1"


def test_a_second_deploy_changes_nothing(shared: Bench) -> None:
    before = pod(shared, "ray.io/group=server")["metadata"]["uid"]
    result = shared.run(*shared.tiny(NAME, *FLAGS))
    assert "unchanged" in result.err, str(result)
    assert "configured" not in result.err, str(result)
    assert pod(shared, "ray.io/group=server")["metadata"]["uid"] == before


def test_the_other_mode_is_rejected_under_the_same_name(shared: Bench) -> None:
    result = shared.run(*shared.tiny(NAME), code=1)
    assert f"raycluster/{NAME} exists" in result.err, str(result)
    assert not shared.items("rayservices")


def test_bench_says_what_the_server_did_meanwhile(shared: Bench) -> None:
    load = ("--concurrency", "2", "--duration", "8s", "--output-tokens", "32", "--set", "ignore_eos=true")
    result = shared.run("bench", NAME, "-n", shared.namespace, *load, "-o", "json").json()
    most = result["service"]["max"]
    assert result["service"]["problems"] == []
    assert (most["replicas"], most["wanted"], most["preemptions"]) == (1, 1, 0)
    # vLLM's own gauge is 0 at most moments where answers take milliseconds.
    assert 0 <= most["running"] <= 2


def test_top_shows_the_load_of_the_server(shared: Bench) -> None:
    with shared.proxied(f"{NAME}-openai") as url, Load(url, "tiny", clients=2, max_tokens=64) as load:
        shared.wait("answers", lambda: load.answered > 2, timeout=60)
        watch = shared.start("top", NAME, "-n", shared.namespace, "--watch", "--interval", "3s", "-o", "json")
        assert watch.stdout is not None
        looks = [json.loads(watch.stdout.readline())]
        # From here on: an engine that has just started is slower.
        answered, begun = load.answered, load.now
        looks += [json.loads(watch.stdout.readline()) for _ in range(3)]
        rate = (load.answered - answered) * load.max_tokens / (load.now - begun)
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=30)
    assert watch.returncode == 130, err
    server = pod(shared, "ray.io/group=server")
    replicas = [replica for look in looks for replica in look["replicas"]]
    print(f"\n{rate:.0f} tokens/s were generated; top: {replicas[-1]}")
    assert len(replicas) == 4
    assert {(one["model"], one["pod"], one["node"]) for one in replicas} == {
        ("tiny", server["metadata"]["name"], server["spec"]["nodeName"]),
    }
    assert replicas[0]["generationTokensPerSecond"] is None
    assert rate / 3 < sum(one["generationTokensPerSecond"] for one in replicas[1:]) / 3 < rate * 3
    assert all(0 <= one["running"] <= 2 and 0 <= one["kvCacheUsage"] <= 1 for one in replicas)
    assert {one["gpus"] for one in replicas} == {None}
    assert err.count("no GPUs: the pods request none") == 1


def test_the_dashboard_is_forwarded(shared: Bench) -> None:
    process = shared.start("dashboard", NAME, "-n", shared.namespace, "--port", "0")
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


def test_it_recovers_from_the_loss_of_its_server_behind_a_forwarded_port(shared: Bench) -> None:
    forward = shared.start("port-forward", NAME, "-n", shared.namespace, "--port", "0")
    assert forward.stdout is not None
    url = forward.stdout.readline().strip()
    assert models(url) == 200
    begin = time.monotonic()
    shared.kubectl("delete", "pod", pod(shared, "ray.io/group=server")["metadata"]["name"], "-n", shared.namespace)
    shared.wait("requests get 503", lambda: models(url) == 503, timeout=90)
    looks = recovered(shared)
    shared.wait("the port leads to the new pod", lambda: models(url) == 200, timeout=30)
    forward.send_signal(signal.SIGINT)
    out, err = forward.communicate(timeout=30)
    assert (forward.returncode, out) == (130, ""), err
    assert err.splitlines()[0] == "model tiny", err
    assert err.count("requests are answered with 503") == 1, err
    assert err.count(f"service {shared.namespace}/{NAME}-openai answers again") == 1, err
    assert {look["state"] for look in looks} <= {"Ready", "Degraded"}, [look["message"] for look in looks]
    assert not any(cause["terminal"] for look in looks for cause in look["causes"])
    assert len(ask(shared).split()) >= 3
    print(f"\nserver pod deleted: Ready again after {time.monotonic() - begin:.0f} s")


def test_it_recovers_from_the_loss_of_the_head(shared: Bench) -> None:
    begin = time.monotonic()
    server = pod(shared, "ray.io/group=server")["metadata"]["uid"]
    shared.kubectl("delete", "pod", pod(shared, "ray.io/node-type=head")["metadata"]["name"], "-n", shared.namespace)
    looks = recovered(shared)
    codes = {cause["code"] for look in looks for cause in look["causes"]}
    assert "HeadDown" in codes, codes
    now = pod(shared, "ray.io/group=server")
    assert now["metadata"]["uid"] == server, "the container restarts; the pod keeps its place"
    assert now["status"]["containerStatuses"][0]["restartCount"] == 1
    assert len(ask(shared).split()) >= 3
    print(f"\nhead pod deleted: Ready again after {time.monotonic() - begin:.0f} s")


def test_delete_leaves_nothing(shared: Bench) -> None:
    shared.run("delete", NAME, "-n", shared.namespace)
    assert not shared.items("rayclusters")
    assert not shared.items("pods")
    assert not [item for item in shared.items("services") if item["metadata"]["name"].startswith(NAME)]

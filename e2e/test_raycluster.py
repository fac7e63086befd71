"""Mode raycluster: vLLM's own server, for real on CPU through losses to its end."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from e2e.harness import Bench, Object

NAME = "own"
FLAGS = ("--kind", "raycluster", "--max-model-len", "1024")


def state(bench: Bench) -> Any:
    return bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None).json()


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


def test_it_recovers_from_the_loss_of_its_server(shared: Bench) -> None:
    begin = time.monotonic()
    shared.kubectl("delete", "pod", pod(shared, "ray.io/group=server")["metadata"]["name"], "-n", shared.namespace)
    looks = recovered(shared)
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

"""One service of vLLM from nothing to an answer, through changes, to its end. Each test builds on those before."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import openai

from e2e.harness import ENDS_SOON_FLAGS, Bench, Watched
from e2e.load import Load

NAME = "talk"
FLAGS = ("--min-replicas", "1", "--max-replicas", "2", "--max-model-len", "1024", *ENDS_SOON_FLAGS)


def clusters(bench: Bench) -> list[str]:
    return sorted(item["metadata"]["name"] for item in bench.items("rayclusters"))


def state(bench: Bench) -> Any:
    return bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None).json()


def test_a_killed_deploy_can_be_run_again_and_ends_ready(shared: Bench) -> None:
    first = shared.start(*shared.tiny(NAME, *FLAGS))
    shared.wait("the RayService exists", lambda: shared.items("rayservices"), timeout=60, pause=0.2)
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    again = shared.run(*shared.tiny(NAME, *FLAGS))
    assert "ready" in again.err
    assert len(clusters(shared)) == 1


def test_status_says_ready_and_shows_the_tree(shared: Bench) -> None:
    health = state(shared)
    assert health["state"] == "Ready", health
    assert health["replicasRunning"] == 1
    assert {node["kind"] for node in health["tree"]} >= {"head", "worker"}


def test_chat_streams_an_answer_in_words(shared: Bench) -> None:
    answer = shared.run(
        "chat", NAME, "What is Kubernetes?", "-n", shared.namespace, "--max-tokens", "48", "--seed", "1"
    )
    assert len(answer.out.split()) >= 3, str(answer)


def test_the_openai_sdk_talks_to_the_endpoint(shared: Bench) -> None:
    url = shared.run("endpoint", NAME, "-n", shared.namespace).out.strip()
    assert url == f"http://{NAME}-serve-svc.{shared.namespace}:8000/v1"
    with shared.forwarded(f"{NAME}-serve-svc") as base:
        client = openai.OpenAI(base_url=f"{base}/v1", api_key="unused", timeout=60)
        assert [model.id for model in client.models.list()] == ["tiny"]
        stream = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Hello"}], max_tokens=16, stream=True, seed=1
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert len([piece for piece in pieces if piece]) > 1, pieces


def test_wait_events_logs_and_a_bundle_agree_with_the_service(shared: Bench, tmp_path: Path) -> None:
    here = ("-n", shared.namespace)
    shared.run("wait", NAME, *here, "--for", "healthy", "--timeout", "2m")
    shared.run("wait", NAME, *here, "--for", "replicas=1", "--timeout", "2m")
    assert shared.run("wait", NAME, *here, "--for", "replicas=3", "--timeout", "2m", code=1).err
    events = shared.run("events", NAME, *here, "-o", "json").json()
    assert {"rayservice", "pod"} <= {event["object"].partition("/")[0] for event in events}
    for which in ((), ("--engine",), ("--head",)):
        logs = shared.run("logs", NAME, *here, *which)
        assert logs.out.strip(), (which, str(logs))
    shared.run("bundle", NAME, *here, "-o", str(tmp_path / "bundle.tar.gz"))
    recorded = shared.run("status", NAME, "--from", str(tmp_path / "bundle.tar.gz"), "-o", "json").json()
    assert (recorded["state"], recorded["replicasRunning"]) == ("Ready", 1), recorded


def test_bench_says_what_vllm_did_meanwhile(shared: Bench) -> None:
    # Ray exports the engine's metrics every ten seconds.
    load = ("--concurrency", "3", "--duration", "25s", "--output-tokens", "400", "--set", "ignore_eos=true")

    def measured() -> Any:
        result = shared.run("bench", NAME, "-n", shared.namespace, *load, "-o", "json").json()
        service = result["service"]
        # On two cores that compute, the dashboard or Ray's report is late now and then; the next look says more.
        late = re.compile("no answer within|no metrics of vLLM")
        assert all(late.search(problem) for problem in service["problems"]), service["problems"]
        known = [sample["replicas"] for sample in service["samples"] if sample["replicas"] is not None]
        assert known == [1] * len(known)
        return result if len(known) >= 2 and service["max"]["running"] else None

    # When it is late all the time, nothing is known of the engine under this load, and the next load tells.
    result = shared.wait("a load test with looks at the engine", measured, timeout=240)
    service = result["service"]
    assert service["max"]["running"] <= 3
    assert 0 <= service["max"]["kvCacheUsage"] <= 1
    assert service["max"]["preemptions"] == 0
    assert result["notPredicted"] == "the speed of CPUs is not planned"

    arriving = ("--rate", "2", "--arrivals", "constant", "--duration", "5s", "--output-tokens", "8")
    opened = shared.run("bench", NAME, "-n", shared.namespace, *arriving, "-o", "json").json()
    assert opened["requests"] == {"total": 10, "succeeded": 10, "failed": 0, "unfinished": 0}, opened["errorMessages"]
    assert opened["load"]["rate"] == 2
    assert opened["latencySeconds"]["e2e"]["p50"] > 0


def top(bench: Bench) -> Any:
    """The only replica that `top` shows, and why something of it is not known."""

    def shown() -> Any:
        # On two cores that compute, the dashboard is late now and then.
        result = bench.run("top", NAME, "-n", bench.namespace, "-o", "json", code=None)
        assert result.code == 0 or "no answer within" in result.err, str(result)
        return result.json() if result.code == 0 else None

    document = bench.wait("an answer of the dashboard", shown, timeout=90)
    [replica] = document["replicas"]
    return replica, document["problems"]


def test_top_shows_the_load_and_that_it_is_over(shared: Bench) -> None:
    with (
        shared.proxied(f"{NAME}-serve-svc") as url,
        Load(url, "tiny", clients=2, max_tokens=64) as load,
    ):
        shared.wait("answers", lambda: load.answered > 2, timeout=60)
        time.sleep(12)  # Ray reports every ten seconds: the next report is of the load alone
        busy, problems = top(shared)
    rate = load.answered * load.max_tokens / load.now
    print(f"\n{rate:.0f} tokens/s were generated; top: {busy}")
    [worker] = shared.items("pods", "ray.io/node-type=worker")
    assert (busy["model"], busy["pod"]) == ("tiny", worker["metadata"]["name"])
    assert busy["node"] == worker["spec"]["nodeName"]
    assert rate / 3 < busy["generationTokensPerSecond"] < rate * 3
    assert busy["promptTokensPerSecond"] > 0
    assert 0 <= busy["running"] <= 2
    assert 0 <= busy["kvCacheUsage"] <= 1
    assert busy["gpus"] is None
    assert problems == ["no GPUs: the pods request none"]
    time.sleep(35)  # in which Ray forgets the gauges of an engine without requests
    idle, problems = top(shared)
    assert (idle["running"], idle["waiting"], idle["kvCacheUsage"]) == (0, 0, 0.0)
    assert (idle["promptTokensPerSecond"], idle["generationTokensPerSecond"]) == (0.0, 0.0)
    assert problems == ["no GPUs: the pods request none"]
    table = shared.run("top", NAME, "-n", shared.namespace)
    assert len(table.out.splitlines()) == 2, str(table)
    assert busy["pod"] in table.out
    assert "no GPUs: the pods request none" in table.err


def test_a_dashboard_that_does_not_answer_makes_no_replica_disappear(shared: Bench) -> None:
    [head] = [item["metadata"]["name"] for item in shared.items("pods", "ray.io/node-type=head")]
    dashboard = ("exec", "-n", shared.namespace, head, "-c", "ray-head", "--", "pkill", "-f", "dashboard/dashboard.py")
    watch = shared.start("watch", NAME, "-n", shared.namespace)
    with (
        shared.proxied(f"{NAME}-serve-svc") as url,
        Watched(shared, NAME) as watched,
        Load(url, "tiny", clients=1, max_tokens=16, pause=0.5) as load,
    ):
        time.sleep(3)
        shared.kubectl(*dashboard, "-STOP")
        try:
            time.sleep(15)
        finally:
            shared.kubectl(*dashboard, "-CONT")
        time.sleep(10)
    watch.send_signal(signal.SIGINT)
    said = "".join(watch.communicate(timeout=90))
    print(f"\nwhile the dashboard stood still for 15 s: {load.figures()}")
    assert re.search(r"replica.* (RUNNING|running)", said), said
    assert not re.search(r"replica.* gone", said), said
    assert watched.running == [1]
    assert not load.failed, load.failed


def test_deploying_again_changes_nothing(shared: Bench) -> None:
    before, names = shared.get("rayservice", NAME), clusters(shared)
    again = shared.run(*shared.tiny(NAME, *FLAGS))
    assert "unchanged" in again.err, str(again)
    after = shared.get("rayservice", NAME)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert clusters(shared) == names


def test_the_manifest_passes_a_server_side_dry_run(shared: Bench) -> None:
    dry = shared.run(*shared.tiny("never", *FLAGS, "--dry-run=server"))
    assert "rayservice/never created (dry run)" in dry.err, str(dry)
    assert [item["metadata"]["name"] for item in shared.items("rayservices")] == [NAME]


def test_changed_bounds_reach_the_live_cluster_without_a_new_one(shared: Bench) -> None:
    names = clusters(shared)
    flags = ["3" if flag == "2" and FLAGS[i - 1] == "--max-replicas" else flag for i, flag in enumerate(FLAGS)]
    shared.run(*shared.tiny(NAME, *flags))
    assert clusters(shared) == names
    for kind, name in (("rayservice", NAME), ("raycluster", names[0])):
        spec = shared.get(kind, name)["spec"]
        group = spec.get("rayClusterConfig", spec)["workerGroupSpecs"][0]
        assert group["maxReplicas"] == 3, (kind, group)


def test_following_logs_goes_on_with_the_replica_that_replaces_another(shared: Bench) -> None:
    [old] = [item["metadata"]["name"] for item in shared.items("pods", "ray.io/node-type=worker")]
    following = shared.start("logs", NAME, "-n", shared.namespace, "-f", "--tail", "1")
    time.sleep(5)
    shared.kubectl("delete", "pod", old, "-n", shared.namespace)
    shared.run("wait", NAME, "-n", shared.namespace, "--for", "healthy", "--timeout", "5m")
    shared.run("chat", NAME, "Hello", "-n", shared.namespace, "--max-tokens", "4")
    time.sleep(5)
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=30)
    assert following.returncode == 130, err
    assert f"pod/{old}: replica ended" in err, err
    begun = set(re.findall(r"pod/(\S+): new replica", err))
    assert begun - {old}, err
    lines = [line for line in out.splitlines() if re.split(r"[][/]", line)[1] in begun - {old}]
    assert any("/v1/chat/completions" in line for line in lines), out
    assert len(set(lines)) == len(lines), out


def test_delete_waits_until_the_pods_are_gone(shared: Bench) -> None:
    begin = time.monotonic()
    shared.run("delete", NAME, "-n", shared.namespace)
    assert not shared.items("pods"), f"pods are left after {time.monotonic() - begin:.0f} s"
    shared.run("wait", NAME, "-n", shared.namespace, "--for", "deleted", "--timeout", "10s")
    assert not shared.items("rayservices")
    missing = shared.run("delete", NAME, "-n", shared.namespace, code=1)
    assert f"there is no service {NAME}" in missing.err

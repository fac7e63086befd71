"""One service of vLLM from nothing to an answer, through changes, to its end."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import openai
import pytest

from e2e.counting import counting
from e2e.harness import ENDS_SOON_FLAGS, Bench, Object, Result, Watched
from e2e.load import Load
from e2e.running import Running

pytestmark = pytest.mark.xdist_group("serve")

NAME = "talk"
FLAGS = ("--min-replicas", "1", "--max-replicas", "2", "--max-model-len", "1024", *ENDS_SOON_FLAGS)

REPORT_SECONDS = 10
"""Between two reports of Ray, which exports the metrics of vLLM."""


def clusters(bench: Bench) -> list[str]:
    return sorted(item["metadata"]["name"] for item in bench.items("rayclusters"))


def state(bench: Bench) -> Any:
    return bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None).json()


def worker(bench: Bench) -> Object:
    [found] = bench.items("pods", "ray.io/node-type=worker")
    return found


@pytest.fixture(scope="module")
def deployed(shared: Bench) -> Result:
    """What `deploy` said that was run again after it had been killed. The service serves."""
    first = shared.start(*shared.tiny(NAME, *FLAGS))
    shared.wait("the RayService exists", lambda: shared.items("rayservices"), timeout=60, pause=0.2)
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    return shared.run(*shared.tiny(NAME, *FLAGS))


@pytest.fixture(scope="module")
def service(deployed: Result, shared: Bench) -> Bench:
    """The namespace of the service."""
    assert deployed.code == 0
    return shared


def test_a_killed_deploy_can_be_run_again_and_ends_ready(deployed: Result, shared: Bench) -> None:
    assert "ready" in deployed.err
    assert len(clusters(shared)) == 1


def test_status_says_ready_and_shows_the_tree(service: Bench) -> None:
    health = state(service)
    assert health["state"] == "Ready", health
    assert health["replicasRunning"] == 1
    assert {node["kind"] for node in health["tree"]} >= {"head", "worker"}


def test_chat_streams_an_answer_in_words(service: Bench) -> None:
    answer = service.run(
        "chat", NAME, "What is Kubernetes?", "-n", service.namespace, "--max-tokens", "48", "--seed", "1"
    )
    assert len(answer.out.split()) >= 3, str(answer)


def test_the_openai_sdk_talks_to_the_endpoint(service: Bench) -> None:
    url = service.run("endpoint", NAME, "-n", service.namespace).out.strip()
    assert url == f"http://{NAME}-serve-svc.{service.namespace}:8000/v1"
    with service.forwarded(f"{NAME}-serve-svc") as base:
        client = openai.OpenAI(base_url=f"{base}/v1", api_key="unused", timeout=60)
        assert [model.id for model in client.models.list()] == ["tiny"]
        stream = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Hello"}], max_tokens=16, stream=True, seed=1
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert len([piece for piece in pieces if piece]) > 1, pieces


def test_wait_events_logs_and_a_bundle_agree_with_the_service(service: Bench, tmp_path: Path) -> None:
    here = ("-n", service.namespace)
    service.run("wait", NAME, *here, "--for", "healthy")
    service.run("wait", NAME, *here, "--for", "replicas=1")
    assert service.run("wait", NAME, *here, "--for", "replicas=3", code=1).err
    events = service.run("events", NAME, *here, "-o", "json").json()["items"]
    assert {"rayservice", "pod"} <= {event["object"].partition("/")[0] for event in events}
    for which in ((), ("--engine",), ("--head",)):
        logs = service.run("logs", NAME, *here, *which)
        assert logs.out.strip(), (which, str(logs))
    service.run("bundle", NAME, *here, "-o", str(tmp_path / "bundle.tar.gz"))
    recorded = service.run("status", NAME, "--from", str(tmp_path / "bundle.tar.gz"), "-o", "json").json()
    assert (recorded["state"], recorded["replicasRunning"]) == ("Ready", 1), recorded


def counted_tokens(bench: Bench) -> int:
    """How many tokens vLLM has generated, as Ray's last report has it."""
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{worker(bench)['metadata']['name']}:8080/proxy/metrics"
    found = re.findall(r"^ray_vllm_generation_tokens_total\{.*\} (\S+)$", bench.kubectl("get", "--raw", path), re.M)
    return round(sum(map(float, found)))


class Top:
    """`top --watch` of the service, whose only replica it shows every two seconds."""

    def __init__(self, bench: Bench) -> None:
        self._running = Running(bench, "top", NAME, "-n", bench.namespace, "-o", "json", "--watch", "--interval", "2s")
        self.bench = bench

    def replicas(self) -> list[Any]:
        """The replica in each reading so far in which the dashboard answered."""
        looks = [json.loads(line)["replicas"] for line in list(self._running.out)]
        return [replica for look in looks if look is not None for replica in look]

    def idle(self, begin: int) -> list[Any]:
        """Wait until it shows an engine without load; the readings from number `begin` until then."""
        nothing = {
            "running": 0, "waiting": 0, "kvCacheUsage": 0.0, "promptTokensPerSecond": 0.0,
            "generationTokensPerSecond": 0.0,
        }  # fmt: skip

        def shown() -> bool:
            seen = self.replicas()[begin:]
            return bool(seen) and nothing.items() <= seen[-1].items()

        self.bench.wait("top shows an idle engine", shown, timeout=300)
        return self.replicas()[begin:]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It reads nothing meanwhile."""
        self._running.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running.process.send_signal(signal.SIGCONT)

    def end(self) -> str:
        """Interrupt it; what it wrote to standard error."""
        self._running.interrupt()
        code, err = self._running.ended()
        assert code == 130, err
        return err


@pytest.mark.slow
def test_top_shows_the_tokens_that_the_engine_counts(service: Bench) -> None:
    service.run("chat", NAME, "Hello", "-n", service.namespace, "--max-tokens", "4")
    top = Top(service)
    top.idle(0)
    before, begin = counted_tokens(service), len(top.replicas())
    with top.paused():  # the whole load is between two of its readings
        with service.proxied(f"{NAME}-serve-svc") as url, Load(url, "tiny", clients=2, max_tokens=64) as load:
            service.wait("answers", lambda: load.answered >= 8, timeout=300)
        assert not load.failed, load.failed
        generated = load.answered * load.max_tokens
        service.wait("the engine has counted", lambda: counted_tokens(service) == before + generated, timeout=300)
    service.wait("a rate", lambda: any(one["generationTokensPerSecond"] for one in top.replicas()[begin:]), timeout=300)
    seen = top.idle(begin)
    err = top.end()
    # A rate is that of the reports between two readings, and is shown until the next report.
    [rate] = [rate for rate, _ in groupby(one["generationTokensPerSecond"] for one in seen) if rate]
    reports = round(generated / rate / REPORT_SECONDS)
    assert rate == pytest.approx(generated / (reports * REPORT_SECONDS), abs=0.1)
    pod = worker(service)
    for one in seen:
        assert (one["model"], one["pod"], one["node"]) == ("tiny", pod["metadata"]["name"], pod["spec"]["nodeName"])
        assert one["running"] <= 2
        assert one["kvCacheUsage"] <= 1
        assert one["gpus"] is None
    assert err.count("no GPUs: the pods request none") == 1, err
    table = service.run("top", NAME, "-n", service.namespace)
    assert len(table.out.splitlines()) == 2, str(table)
    assert pod["metadata"]["name"] in table.out
    assert "no GPUs: the pods request none" in table.err


@pytest.mark.slow
def test_bench_says_what_vllm_did_meanwhile(service: Bench) -> None:
    load = ("--concurrency", "3", "--duration", "25s", "--output-tokens", "400", "--set", "ignore_eos=true")

    def measured() -> Any:
        [result] = service.run("bench", NAME, "-n", service.namespace, *load, "-o", "json").json()["runs"]
        found = result["service"]
        # On two cores that compute, the dashboard or Ray's report is late now and then; the next look says more.
        late = re.compile("no answer within|no metrics of vLLM")
        assert all(late.search(problem) for problem in found["problems"]), found["problems"]
        known = [sample["replicas"] for sample in found["samples"] if sample["replicas"] is not None]
        assert known == [1] * len(known)
        return result if len(known) >= 2 and found["max"]["running"] else None

    # When it is late all the time, nothing is known of the engine under this load, and the next load tells.
    result = service.wait("a load test with looks at the engine", measured, timeout=300)
    most = result["service"]["max"]
    assert most["running"] <= 3
    assert 0 <= most["kvCacheUsage"] <= 1
    assert most["preemptions"] == 0
    assert result["notPredicted"] == "the planner does not predict the speed of CPUs"

    top = Top(service)
    top.idle(0)
    top.end()
    before = counted_tokens(service)
    arriving = ("--rate", "2", "--arrivals", "constant", "--duration", "5s", "--output-tokens", "8")
    flags = (*arriving, "--set", "ignore_eos=true", "-o", "json")
    [opened] = service.run("bench", NAME, "-n", service.namespace, *flags).json()["runs"]
    assert opened["requests"] == {"total": 10, "succeeded": 10, "failed": 0, "unfinished": 0}, opened["errorMessages"]
    assert opened["load"]["rate"] == 2
    assert opened["latencySeconds"]["e2e"]["p50"] > 0
    service.wait("the engine has counted", lambda: counted_tokens(service) == before + 10 * 8, timeout=300)


@pytest.mark.slow
def test_a_dashboard_that_does_not_answer_makes_no_replica_disappear(service: Bench, tmp_path: Path) -> None:
    [head] = [item["metadata"]["name"] for item in service.items("pods", "ray.io/node-type=head")]
    dashboard = ("exec", "-n", service.namespace, head, "-c", "ray-head", "--", "pkill", "-f", "dashboard/dashboard.py")
    with (
        counting(service, tmp_path) as (counted, proxy),
        service.proxied(f"{NAME}-serve-svc") as url,
        Watched(service, NAME) as watched,
        Load(url, "tiny", clients=1, max_tokens=16, pause=0.5) as load,
    ):
        watch = Running(counted, "watch", NAME, "-n", service.namespace)

        def asked() -> int:
            return sum("/api/serve/applications" in request for request in list(proxy.requests))

        def asks_again(times: int) -> None:
            wanted = asked() + times
            service.wait("watch asks the dashboard again", lambda: asked() >= wanted, timeout=300)

        asks_again(2)
        service.kubectl(*dashboard, "-STOP")
        try:
            asks_again(3)  # two of which have had no answer
        finally:
            service.kubectl(*dashboard, "-CONT")
        asks_again(2)
        watch.interrupt()
        _, err = watch.ended()
    said = "".join(watch.out) + err
    assert re.search(r"replica.* (RUNNING|running)", said), said
    assert not re.search(r"replica.* gone", said), said
    assert watched.running == [1]
    assert not load.failed, load.failed


def test_deploying_again_changes_nothing(service: Bench) -> None:
    before, names = service.get("rayservice", NAME), clusters(service)
    again = service.run(*service.tiny(NAME, *FLAGS))
    assert "unchanged" in again.err, str(again)
    after = service.get("rayservice", NAME)
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert clusters(service) == names


def test_the_manifest_passes_a_server_side_dry_run(service: Bench) -> None:
    dry = service.run(*service.tiny("never", *FLAGS, "--dry-run=server"))
    assert "rayservice/never created (dry run)" in dry.err, str(dry)
    assert [item["metadata"]["name"] for item in service.items("rayservices")] == [NAME]


def test_changed_bounds_reach_the_live_cluster_without_a_new_one(service: Bench) -> None:
    names = clusters(service)
    flags = ["3" if flag == "2" and FLAGS[i - 1] == "--max-replicas" else flag for i, flag in enumerate(FLAGS)]
    service.run(*service.tiny(NAME, *flags))
    assert clusters(service) == names
    for kind, name in (("rayservice", NAME), ("raycluster", names[0])):
        spec = service.get(kind, name)["spec"]
        group = spec.get("rayClusterConfig", spec)["workerGroupSpecs"][0]
        assert group["maxReplicas"] == 3, (kind, group)


@pytest.mark.slow
def test_following_logs_goes_on_with_the_replica_that_replaces_another(service: Bench) -> None:
    old = worker(service)["metadata"]["name"]
    following = Running(service, "logs", NAME, "-n", service.namespace, "-f", "--tail", "1")
    following.prints()
    service.kubectl("delete", "pod", old, "-n", service.namespace)
    following.says(f"pod/{old}: replica ended")
    service.run("wait", NAME, "-n", service.namespace, "--for", "healthy")
    following.says(rf"pod/(?!{old}:)\S+: new replica")
    service.run("chat", NAME, "Hello", "-n", service.namespace, "--max-tokens", "4")

    def of_new() -> list[str]:
        return [line for line in list(following.out) if re.split(r"[][/]", line)[1] != old]

    service.wait("the request is logged", lambda: any("/v1/chat/completions" in one for one in of_new()), timeout=300)
    following.interrupt()
    assert following.ended()[0] == 130
    assert len(set(of_new())) == len(of_new()), following.out


def test_delete_waits_until_the_pods_are_gone(service: Bench) -> None:
    service.run("delete", NAME, "-n", service.namespace)
    assert not service.items("pods")
    service.run("wait", NAME, "-n", service.namespace, "--for", "deleted")
    assert not service.items("rayservices")
    missing = service.run("delete", NAME, "-n", service.namespace, code=1)
    assert f"there is no service {NAME}" in missing.err

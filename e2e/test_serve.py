"""One service from nothing to an answer, through changes and load, to its end. Each test builds on those before."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import openai
import pytest

from e2e.harness import Bench, Watched
from e2e.load import Load

NAME = "talk"
FLAGS = (
    "--min-replicas", "1", "--max-replicas", "2", "--target-ongoing-requests", "2",
    "--upscale-delay", "2s", "--downscale-delay", "2m", "--max-model-len", "1024",
)  # fmt: skip


def clusters(bench: Bench) -> list[str]:
    return sorted(item["metadata"]["name"] for item in bench.items("rayclusters"))


def groups(bench: Bench, service: str) -> list[Any]:
    """The worker groups of the service's live RayCluster."""
    owned = [
        item
        for item in bench.items("rayclusters")
        if item["metadata"]["labels"]["ray.io/originated-from-cr-name"] == service
    ]
    return [group for item in owned for group in item["spec"]["workerGroupSpecs"]]


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


def test_a_dashboard_that_does_not_answer_makes_no_replica_disappear(shared: Bench) -> None:
    head = pod(shared, "head")
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
    said = "".join(watch.communicate(timeout=30))
    print(f"\nwhile the dashboard stood still for 15 s: {load.figures()}")
    assert re.search(r"replica.* (RUNNING|running)", said), said
    assert not re.search(r"replica.* gone", said), said
    assert watched.running == [1]
    assert not load.failed, load.failed


@pytest.mark.parametrize("kind", ["worker", "head"])
def test_a_service_that_lost_its_pod_is_not_called_progressing(shared: Bench, kind: str) -> None:
    """While nothing is answered `status` says that the service does not serve, why, and since when."""
    with shared.proxied(f"{NAME}-serve-svc") as url:
        with Load(url, "tiny", clients=2, max_tokens=16, pause=0.2, timeout=10) as load:
            shared.wait("answers", lambda: load.answered > 5, timeout=60)
            deleted = datetime.now(UTC)
            shared.kubectl("delete", "pod", pod(shared, kind), "-n", shared.namespace, "--wait=false")
            looks = outage(shared, load)
            time.sleep(5)
        shared.wait("Ready again", lambda: state(shared)["state"] == "Ready", timeout=120)
    print(f"\n{kind} pod deleted at {deleted:%H:%M:%S}: {load.figures()}")
    for look in looks:
        print(f"  {look}")
    during = [look for look in looks if look.silent > NOTICED]
    assert during, "the outage was over before it could be noticed"
    for look in during:
        assert look.code == 1, str(look)
        assert look.health["state"] in ("Degraded", "Failed"), str(look)
        assert not look.health["causes"][0]["terminal"], str(look)
        # What is lost is known from its deletion on; a head's workers answer on for up to a minute.
        assert (look.since - deleted).total_seconds() > -3, str(look)
        assert (look.since - look.last_answer).total_seconds() < 15, str(look)


NOTICED = 12.0
"""Seconds without an answer after which `status` has to know of it: Serve and KubeRay notice after up to ten."""


def pod(bench: Bench, kind: str) -> str:
    """The name of a running head or worker pod of the service."""
    selector = f"ray.io/node-type={kind},ray.io/cluster={clusters(bench)[0]}"
    pods = [item for item in bench.items("pods", selector) if "deletionTimestamp" not in item["metadata"]]
    return str(pods[0]["metadata"]["name"])


@dataclass(frozen=True)
class Look:
    """What `status` said when nothing had been answered for `silent` seconds."""

    silent: float
    last_answer: datetime
    code: int
    health: Any

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(self.health["causes"][0]["since"])

    def __str__(self) -> str:
        causes = ", ".join(f"{cause['code']} since {cause['since'][11:19]}" for cause in self.health["causes"])
        return (
            f"{self.silent:5.1f} s without an answer: exit {self.code}, {self.health['state']}: {causes}: "
            f"{self.health['message']}"
        )


def outage(bench: Bench, load: Load) -> list[Look]:
    """What `status` said while nothing was answered, until it was again.

    A pod that is being deleted finishes its requests, so the outage begins some seconds after the deletion.
    """
    looks: list[Look] = []
    begin = load.now
    while not (looks and load.silent() < 1):
        assert load.now - begin < 300, f"no answer within 300 s: {load.figures()}"
        silent, answered = load.silent(), load.answered
        last_answer = datetime.now(UTC) - timedelta(seconds=silent)
        result = bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None)
        if load.answered == answered and silent > 2:
            looks.append(Look(silent, last_answer, result.code, result.json()))
        time.sleep(1)
    return looks


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


def test_load_scales_to_two_replicas_and_back_and_watch_sees_it(shared: Bench) -> None:
    with Watched(shared, NAME) as watched, shared.forwarded(f"{NAME}-serve-svc") as base:
        # The CPU engine takes every core while it works: full load only until the decision, then one now and then,
        # so that the second replica can start on a small machine before the first's idleness lasts two minutes.
        with Load(base, "tiny", clients=6, max_tokens=600):
            shared.wait("two replicas are wanted", lambda: watched.wanted == 2, timeout=120, pause=0.2)
        with Load(base, "tiny", clients=1, max_tokens=16, pause=5) as load:
            shared.wait("two replicas run", lambda: watched.running[-1] == 2, timeout=300)
        assert load.answered > 0, load.failed
        shared.wait("one replica again", lambda: watched.running[-1] == 1, timeout=300)
    assert watched.running[:3] == [1, 2, 1], watched.running


def test_changed_bounds_reach_the_live_cluster_without_a_new_one(shared: Bench) -> None:
    names = clusters(shared)
    flags = ["3" if flag == "2" and FLAGS[i - 1] == "--max-replicas" else flag for i, flag in enumerate(FLAGS)]
    shared.run(*shared.tiny(NAME, *flags))
    assert clusters(shared) == names
    for kind, name in (("rayservice", NAME), ("raycluster", names[0])):
        spec = shared.get(kind, name)["spec"]
        group = spec.get("rayClusterConfig", spec)["workerGroupSpecs"][0]
        assert group["maxReplicas"] == 3, (kind, group)


def test_a_changed_engine_argument_is_made_in_place(shared: Bench) -> None:
    names = clusters(shared)
    changed = shared.run(*shared.tiny(NAME, *FLAGS, "--max-num-seqs", "4"))
    assert "configured" in changed.err, str(changed)
    assert clusters(shared) == names
    answer = shared.run("chat", NAME, "Hello", "-n", shared.namespace, "--max-tokens", "8", "--seed", "1")
    assert answer.out.strip()
    head = f"{names[0]}-head-svc:dashboard"
    raw = shared.kubectl(
        "get", "--raw", f"/api/v1/namespaces/{shared.namespace}/services/{head}/proxy/api/serve/applications/"
    )
    assert '"max_num_seqs": 4' in raw or '"max_num_seqs":4' in raw


def test_a_second_service_beside_it(shared: Bench) -> None:
    shared.run(*shared.tiny("beside", "--replicas", "1", "--max-model-len", "512"))
    listed = shared.run("status", "-n", shared.namespace, "-o", "json").json()
    assert {row["name"]: row["health"]["state"] for row in listed} == {NAME: "Ready", "beside": "Ready"}
    before = clusters(shared)
    shared.run(*shared.tiny("beside", "--max-replicas", "2", "--max-model-len", "512"))
    assert clusters(shared) == before, "going from a fixed number to autoscaling starts no second Ray cluster"
    assert max(group["maxReplicas"] for group in groups(shared, "beside")) == 2
    shared.run("delete", "beside", "-n", shared.namespace)
    assert state(shared)["state"] == "Ready"


def test_delete_waits_until_the_pods_are_gone(shared: Bench) -> None:
    begin = time.monotonic()
    shared.run("delete", NAME, "-n", shared.namespace)
    assert not shared.items("pods"), f"pods are left after {time.monotonic() - begin:.0f} s"
    assert not shared.items("rayservices")
    missing = shared.run("delete", NAME, "-n", shared.namespace, code=1)
    assert f"there is no service {NAME}" in missing.err


@pytest.fixture(autouse=True)
def _stop_after_a_failure(request: pytest.FixtureRequest) -> None:
    """Later tests of this module build on earlier ones: after a failure they could only add noise."""
    failed = request.session.testsfailed
    first = request.node.getparent(pytest.Module).stash.setdefault(_BEGIN, failed)
    if failed > first:
        pytest.fail("an earlier step of this service failed", pytrace=False)


_BEGIN = pytest.StashKey[int]()

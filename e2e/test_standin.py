"""One service on claimed GPUs through changes, load and losses, with a stand-in for the engine.

Each test builds on those before.
"""

from __future__ import annotations

import json
import re
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import STAND_IN, Bench, Object, Target, Watched
from e2e.load import Load

NAME = "standin"
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
FIXED = {"min": 1, "max": 1}

LOOK_BACK = 15
"""Seconds over which Serve averages the load: with a low target, what one test sent would scale up for the next."""

SCALED = {
    "min": 1, "max": 2, "targetOngoingRequests": 2,
    "upscaleDelay": "2s", "downscaleDelay": "10s", "lookBackPeriod": f"{LOOK_BACK}s",
}  # fmt: skip

ENVIRONMENT = {**STAND_IN, "RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S": "10"}
"""Pods end sooner: Serve's proxies wait 30 s by default for load balancers to notice that they end.

The kubelet, which asks every 5 s, and the endpoints have to notice it here as well.
"""

ARGUMENT = {"enable_prefix_caching": False}
ARGUMENTS = {**ARGUMENT, "enable_chunked_prefill": True}


@dataclass(frozen=True)
class Spec:
    """The service's spec file, and the flags that every command needs with it."""

    file: Path
    image: str

    def flags(self, replicas: Object, **engine: Any) -> tuple[str, ...]:
        """Write the file, and name it."""
        spec = {
            "model": {"id": MODEL, "path": "/models/tiny"},
            "accelerator": {"gpu": "H100-80GB"},
            "parallelism": {"tensor": 4},
            "engine": {"image": self.image, "env": ENVIRONMENT, **engine},
            "upgrade": {"deletionDelay": "10s"},
            "replicas": replicas,
            "resources": {"worker": {"cpu": "2", "memory": "3Gi"}},
            "ray": {"idleTimeout": "10s"},
        }
        head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": NAME}}
        self.file.write_text(json.dumps({**head, "spec": spec}))
        return ("-f", str(self.file), "--offline")


@pytest.fixture(scope="module")
def spec(own: Target, tmp_path_factory: pytest.TempPathFactory) -> Spec:
    return Spec(tmp_path_factory.mktemp("standin") / "spec.json", own.image)


def state(bench: Bench) -> Any:
    return bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None).json()


def cluster(bench: Bench) -> str:
    """The name of the service's only RayCluster."""
    (only,) = bench.items("rayclusters")
    return str(only["metadata"]["name"])


def gpus(pod: Object) -> int:
    limits = [box.get("resources", {}).get("limits", {}) for box in pod["spec"]["containers"]]
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


def workers(bench: Bench) -> list[Object]:
    return bench.items("pods", "ray.io/node-type=worker")


def pods(bench: Bench) -> dict[str, str]:
    """Every pod of Ray and its uid."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bench.items("pods", "ray.io/cluster")}


def served(bench: Bench) -> Object:
    """What Serve says of the application."""
    document = json.loads(bench.serve_answer(cluster(bench)))
    application: Object = document["applications"][NAME]
    return application


def replicas(bench: Bench) -> dict[str, str]:
    """Each healthy Serve deployment and the id of its one running replica."""
    found = {}
    for name, deployment in served(bench)["deployments"].items():
        running = [one["replica_id"] for one in deployment["replicas"] if one["state"] == "RUNNING"]
        if deployment["status"] == "HEALTHY" and len(running) == 1:
            found[name] = running[0]
    return found


def test_a_replica_of_four_gpus_answers(shared: Bench, spec: Spec) -> None:
    shared.run("deploy", *spec.flags(FIXED), "-n", shared.namespace)
    assert [gpus(pod) for pod in workers(shared)] == [4]
    answer = shared.run("chat", NAME, "Hello", "-n", shared.namespace, "--max-tokens", "12")
    assert len(answer.out.split()) >= 3


def test_load_comes_from_a_job_and_from_here(shared: Bench) -> None:
    flags = (NAME, "-n", shared.namespace, "--concurrency", "2", "--requests", "20", "--output-tokens", "16")
    found = [shared.run("bench", *flags, "-o", "json", *where).json() for where in ((), ("--local",))]
    for result in found:
        assert result["requests"] == {"total": 20, "succeeded": 20, "failed": 0, "unfinished": 0}, result[
            "errorMessages"
        ]
        assert result["tokens"]["countedBy"] == "usage"
        latency = result["latencySeconds"]
        assert 0 < latency["ttft"]["p50"] < latency["e2e"]["p50"]
    process = shared.start("bench", NAME, "-n", shared.namespace, "--rate", "4", "--duration", "5m")
    label = "app.kubernetes.io/name=loadtest"

    def answered() -> bool:
        pods = [pod for pod in shared.items("pods", label) if pod["status"]["phase"] == "Running"]
        logs = [shared.kubectl("logs", pod["metadata"]["name"], "-n", shared.namespace) for pod in pods]
        return any(re.search(r'"progress": {"done": [1-9]', log) for log in logs)

    shared.wait("the load test has answers", answered, timeout=90)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in out, err
    assert re.search(r"[1-9]\d* answered", out), out
    shared.wait("nothing is left", lambda: not shared.items("jobs"), timeout=90)
    shared.wait("nothing is left", lambda: not shared.items("configmaps", label), timeout=60)


def test_an_engine_argument_restarts_the_replicas_in_their_pods(shared: Bench, spec: Spec) -> None:
    pods_before, before = pods(shared), replicas(shared)
    flags = spec.flags(FIXED, args=ARGUMENT)
    assert shared.effects(*flags) == {"restart"}
    assert replicas(shared) == before
    shared.apply_rendered(NAME, *flags)

    def restarted() -> bool:
        now = replicas(shared)
        return set(now) == set(before) and not set(now.values()) & set(before.values())

    shared.wait("every replica is another one", restarted, timeout=180)
    assert pods(shared) == pods_before
    assert '"enable_prefix_caching": false' in json.dumps(served(shared))
    again = shared.run("deploy", *flags, "-n", shared.namespace)
    assert "unchanged" in again.err, str(again)
    assert shared.run("chat", NAME, "Hello", "-n", shared.namespace, "--max-tokens", "8").out.strip()


NOTICED = 12.0
"""Seconds without an answer after which `status` has to know of it: Serve and KubeRay notice after up to ten."""

TIMEOUT = 5.0
"""Seconds after which a client gives up; those whose request was lost hear only then that others are answered."""


@pytest.mark.parametrize("kind", ["worker", "head"])
def test_a_service_that_lost_its_pod_is_not_called_progressing(shared: Bench, kind: str) -> None:
    """While nothing is answered `status` says that the service does not serve, why, and since when."""
    pods = [pod["metadata"] for pod in shared.items("pods", f"ray.io/node-type={kind}")]
    lost = next(pod["name"] for pod in pods if "deletionTimestamp" not in pod)
    with shared.proxied(f"{NAME}-serve-svc") as url:
        with Load(url, MODEL, clients=2, max_tokens=16, pause=0.2, timeout=TIMEOUT) as load:
            shared.wait("answers", lambda: load.answered > 5, timeout=60)
            deleted = datetime.now(UTC)
            shared.kubectl("delete", "pod", lost, "-n", shared.namespace, "--wait=false")
            looks = outage(shared, load)
            time.sleep(5)
        shared.wait("Ready again", lambda: state(shared)["state"] == "Ready", timeout=120)
    print(f"\n{kind} pod deleted at {deleted:%H:%M:%S}: {load.figures()}")
    for look in looks:
        print(f"  {look}")
    over = [look for look in looks if look.health["message"].startswith("serving")]
    assert all(looks[-1].silent - look.silent < TIMEOUT for look in over), "said to be serving during the outage"
    late = [look for look in looks if look.silent > NOTICED and look not in over]
    during = late or [look for look in looks if look.code == 1]
    # A head that is replaced within seconds may be back before anything has noticed.
    assert during or looks[-1].silent < NOTICED, "the outage was not noticed"
    for look in during:
        assert look.code == 1, str(look)
        assert look.health["state"] in ("Degraded", "Failed"), str(look)
        assert not look.health["causes"][0]["terminal"], str(look)
        # What is lost is known from its deletion on; a head's workers answer on for up to a minute.
        assert (look.since - deleted).total_seconds() > -3, str(look)
        assert (look.since - look.last_answer).total_seconds() < 15, str(look)


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


def test_with_one_more_replica_an_engine_argument_changes_without_a_lost_request(shared: Bench, spec: Spec) -> None:
    """One more replica starts, the old one is replaced, and the service has its own bounds and workers again."""
    flags = spec.flags(FIXED, args=ARGUMENTS)
    with shared.proxied(f"{NAME}-serve-svc") as url, Load(url, MODEL, clients=4, max_tokens=16, pause=0.1) as load:
        shared.wait("answers", lambda: load.answered > 5, timeout=60)
        changed = shared.run("deploy", *flags, "-n", shared.namespace)
        done = load.answered
        shared.wait("answers afterwards", lambda: load.answered > done + 5, timeout=60)
    assert "surge: " in changed.err, str(changed)
    assert not load.failed, load.figures() + str(load.failed[:3])
    assert '"enable_chunked_prefill": true' in json.dumps(served(shared))
    assert len([pod for pod in workers(shared) if "deletionTimestamp" not in pod["metadata"]]) == 1
    (group,) = shared.get("raycluster", cluster(shared))["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 1)
    print(f"\nengine argument with one more replica: {load.figures()}")


def test_going_from_a_fixed_number_to_autoscaling_replaces_nothing(shared: Bench, spec: Spec) -> None:
    pods_before, before = pods(shared), replicas(shared)
    assert len(before) == 2, before
    time.sleep(LOOK_BACK)
    flags = spec.flags(SCALED, args=ARGUMENTS)
    assert shared.effects(*flags) == {"bounds", "in-place"}
    shared.run("deploy", *flags, "-n", shared.namespace)
    (only,) = shared.items("rayclusters")
    assert [group["maxReplicas"] for group in only["spec"]["workerGroupSpecs"]] == [2]
    assert (pods(shared), replicas(shared)) == (pods_before, before)


def says_when_it_scaled(result: Object) -> None:
    assert result["requests"]["failed"] == 0, result["errorMessages"]
    assert result["requests"]["succeeded"] > 0
    service = result["service"]
    # The stand-in exports no metrics; e2e/test_serve.py reads those of vLLM.
    assert service["problems"] == [
        "no metrics of vLLM: the engine exports none, or none yet (they begin some seconds after a request)"
    ]
    (scaled,) = service["scaling"]
    assert (scaled["from"], scaled["to"]) == (1, 2)
    # The load has to be high for two seconds, and is known as long before the second group has started.
    wanted = next(sample["at"] for sample in service["samples"] if sample["wanted"] == 2)
    assert 0 < wanted <= scaled["at"] < result["durationSeconds"], service["samples"]
    gaps = [after["at"] - before["at"] for before, after in pairwise(service["samples"])]
    assert max(gaps) < 10, gaps
    assert (service["max"]["replicas"], service["max"]["running"]) == (2, None)
    # What the GPUs would do that the nodes claim to have; replicas changed, so there is nothing to compare.
    assert result["predicted"] is None
    assert result["notPredicted"] == "the number of replicas is not known, or changed"


def test_load_scales_to_two_groups_of_four_gpus_and_back(shared: Bench) -> None:
    # Without an early end a request is in flight for seconds: autoscaling counts what is in flight.
    load = ("--concurrency", "6", "--duration", "10m", "--output-tokens", "64", "--set", "ignore_eos=true")
    with Watched(shared, NAME) as watched:
        process = shared.start("bench", NAME, "-n", shared.namespace, *load, "-o", "json")
        shared.wait("two replicas of four GPUs", lambda: watched.running[-1] == 2, timeout=300)
        time.sleep(5)  # for a look at both
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        says_when_it_scaled(json.loads(out))
        shared.wait("one replica again", lambda: watched.running[-1] == 1, timeout=180)
        shared.wait("one group of four GPUs again", lambda: [gpus(pod) for pod in workers(shared)] == [4], timeout=240)
    assert watched.running[:3] == [1, 2, 1], watched.running
    print(watched.notes)
    engine = "autoscaling: LLMServer:meta-llama--Llama-3_1-70B-Instruct"
    assert f"{engine} 1 → 2 replicas: " in watched.notes, watched.notes
    assert f"{engine} 2 → 1 replicas: " in watched.notes, watched.notes
    assert "target 2 per replica, 1 to 2 replicas, trigger " in watched.notes


LONG = 700
"""Tokens of answers that take longer than the 30 s that Kubernetes gives a pod to end, at 20 a second."""


def test_a_drained_worker_finishes_its_long_answers(shared: Bench) -> None:
    """With two replicas: the pod of one is evicted while both write answers of 35 s, and no answer breaks off."""
    shared.run("scale", NAME, "-n", shared.namespace, "--replicas", "2")
    names = {str(pod["metadata"]["name"]) for pod in workers(shared)}
    evicted = sorted(names)[0]
    with (
        shared.proxied(f"{NAME}-serve-svc") as url,
        Load(url, MODEL, clients=4, max_tokens=LONG, timeout=180, streaming=2) as load,
    ):
        time.sleep(5)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
        path = f"/api/v1/namespaces/{shared.namespace}/pods/{evicted}/eviction"
        shared.kubectl("create", "--raw", path, "-f", "-", input_text=json.dumps(eviction))
        begin = time.monotonic()
        shared.wait("the pod is gone", lambda: evicted not in pods(shared), timeout=200)
        gone = time.monotonic() - begin
        shared.wait("answers afterwards", lambda: load.answered >= 8, timeout=180)
    print(f"the pod was gone after {gone:.0f} s; {load.figures(slow=60)}")
    assert not load.failed, load.failed
    assert gone < 120, "Ray ends when nothing runs on the node any more"


def test_a_second_ray_cluster_gets_its_gpus_from_the_first(shared: Bench, spec: Spec) -> None:
    """Two replicas hold all eight GPUs: one gives its four to the second RayCluster, and comes back afterwards."""
    first = cluster(shared)
    with (
        shared.proxied(f"{NAME}-serve-svc") as url,
        Load(url, MODEL, clients=4, max_tokens=16, pause=0.1, timeout=60, streaming=2) as load,
    ):
        flags = spec.flags({"min": 2, "max": 2}, args=ARGUMENTS, env={**ENVIRONMENT, "COLOR": "blue"})
        changed = shared.run("deploy", *flags, "-n", shared.namespace, "--timeout", "300s")
    print(f"{changed.seconds:.0f} s; {load.figures()}")
    assert "2 → 1 → 1 → 2" in changed.err, str(changed)
    assert not load.failed, load.failed

    def gone() -> bool:
        return first not in {one["metadata"]["name"] for one in shared.items("rayclusters")}

    shared.wait("the first RayCluster is gone", gone, timeout=120)
    assert [gpus(pod) for pod in workers(shared)] == [4, 4]

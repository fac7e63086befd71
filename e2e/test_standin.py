"""One service on claimed GPUs through load, losses and changes, without a gateway. test_held.py is the gate's part.

Each test builds on those before.
"""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import STAND_IN, Bench, Object, Result, Target, Watched
from e2e.load import Load
from e2e.outages import lost

pytestmark = [
    pytest.mark.xdist_group("standin"), pytest.mark.incremental, pytest.mark.slow, pytest.mark.usefixtures("claimed"),
]  # fmt: skip

NAME = "standin"
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
FIXED = {"min": 1, "max": 1}

SCALED = {
    "min": 1, "max": 2, "targetOngoingRequests": 2,
    "upscaleDelay": "2s", "downscaleDelay": "10s", "lookBackPeriod": "15s",
}  # fmt: skip

ENVIRONMENT = {**STAND_IN, "RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S": "10"}
"""Pods end sooner: Serve's proxies wait 30 s by default for load balancers to notice that they end.

The kubelet, which asks every 5 s, and the endpoints have to notice it here as well.
"""

ARGUMENT = {"enable_prefix_caching": False}


@dataclass(frozen=True)
class Spec:
    """The service's spec file, and the flags that every command needs with it."""

    file: Path
    image: str

    def flags(self, replicas: Object, *, tensor: int = 4, **engine: Any) -> tuple[str, ...]:
        """Write the file, and name it."""
        spec = {
            "model": {"id": MODEL, "path": "/models/tiny"},
            "accelerator": {"gpu": "H100-80GB"},
            "parallelism": {"tensor": tensor},
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
def spec(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Spec:
    return Spec(tmp_path_factory.mktemp("standin") / "spec.json", target.image)


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
    found = [shared.run("bench", *flags, "-o", "json", *where).json()["runs"][0] for where in ((), ("--local",))]
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


def test_going_from_a_fixed_number_to_autoscaling_replaces_nothing(shared: Bench, spec: Spec) -> None:
    pods_before, before = pods(shared), replicas(shared)
    assert len(before) == 2, before
    flags = spec.flags(SCALED, args=ARGUMENT)
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
    wanted = next(sample["atSeconds"] for sample in service["samples"] if sample["wanted"] == 2)
    assert 0 < wanted <= scaled["atSeconds"] < result["durationSeconds"], service["samples"]
    assert (service["max"]["replicas"], service["max"]["running"]) == (2, None)
    # What the GPUs would do that the nodes claim to have; replicas changed, so there is nothing to compare.
    assert result["predicted"] is None
    assert result["notPredicted"] == "the number of replicas is unknown, or changed"


def test_bench_says_when_it_scaled(shared: Bench) -> None:
    # Without an early end a request is in flight for seconds: autoscaling counts what is in flight.
    load = ("--concurrency", "6", "--duration", "2m", "--output-tokens", "64", "--set", "ignore_eos=true")
    with Watched(shared, NAME) as watched:
        says_when_it_scaled(shared.run("bench", NAME, "-n", shared.namespace, *load, "-o", "json").json()["runs"][0])
        shared.wait("one replica again", lambda: watched.running[-1] == 1, timeout=180)
        shared.wait("one group of four GPUs again", lambda: [gpus(pod) for pod in workers(shared)] == [4], timeout=240)
    assert watched.running[:3] == [1, 2, 1], watched.running
    print(watched.notes)
    engine = "autoscaling: LLMServer:meta-llama--Llama-3_1-70B-Instruct"
    assert f"{engine} 1 → 2 replicas: " in watched.notes, watched.notes
    assert f"{engine} 2 → 1 replicas: " in watched.notes, watched.notes
    assert "target 2 per replica, 1 to 2 replicas, trigger " in watched.notes


@pytest.mark.parametrize("kind", ["worker", "head"])
def test_a_service_that_lost_its_pod_is_not_called_progressing(shared: Bench, kind: str) -> None:
    """While nothing is answered `status` says that the service does not serve, why, and since when."""
    shared.run("scale", NAME, "-n", shared.namespace, "--replicas", "1")  # else Ray starts a second worker in its place
    (pod,) = [item["metadata"]["name"] for item in shared.items("pods", f"ray.io/node-type={kind}")]
    begin = datetime.now(UTC).replace(microsecond=0)
    with lost(shared, pod):
        # A head's workers answer for a while after it.
        shared.wait("nothing is answered", lambda: not answers(shared), timeout=300)
        look = shared.wait("status knows", lambda: not_serving(shared), timeout=300)
        assert look.code == 1, str(look)
        health = look.json()
        assert health["state"] in ("Degraded", "Failed"), str(look)
        assert not health["causes"][0]["terminal"], str(look)
        assert datetime.fromisoformat(health["causes"][0]["since"]) >= begin, str(look)
        assert not answers(shared)
        # It stays so: nothing that is tried meanwhile is taken for progress.
        assert state(shared)["state"] in ("Degraded", "Failed")
    shared.wait("Ready again", lambda: state(shared)["state"] == "Ready", timeout=300)


def answers(bench: Bench) -> bool:
    asked = ("chat", NAME, "Hello", "-n", bench.namespace, "--max-tokens", "2")
    return bench.run(*asked, code=None).code == 0


def not_serving(bench: Bench) -> Result | None:
    """What `status` says, once it does not say that the service serves. It never says that it is on its way."""
    result = bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None)
    health = result.json()
    if health["message"].startswith("serving"):
        return None
    assert health["state"] != "Progressing", str(result)
    return result


def test_a_second_ray_cluster_gets_its_gpus_from_the_first(shared: Bench, spec: Spec) -> None:
    """Two replicas hold all eight GPUs: one gives its four to the second RayCluster, and comes back afterwards."""
    shared.run("scale", NAME, "-n", shared.namespace, "--replicas", "2")
    first = cluster(shared)
    with (
        shared.proxied(f"{NAME}-serve-svc") as url,
        Load(url, MODEL, clients=4, max_tokens=16, pause=0.1, timeout=60, streaming=2) as load,
    ):
        flags = spec.flags({"min": 2, "max": 2}, args=ARGUMENT, env={**ENVIRONMENT, "COLOR": "blue"})
        changed = shared.run("deploy", *flags, "-n", shared.namespace, "--timeout", "300s")
    assert "2 → 1 → 1 → 2" in changed.err, str(changed)
    assert not load.failed, load.failed

    def gone() -> bool:
        return first not in {one["metadata"]["name"] for one in shared.items("rayclusters")}

    shared.wait("the first RayCluster is gone", gone, timeout=120)
    assert [gpus(pod) for pod in workers(shared)] == [4, 4]


def test_raised_replicas_start_on_the_second_ray_cluster_alone(shared: Bench, spec: Spec) -> None:
    """Beside the two GPUs of the first RayCluster there are six, as many as the three replicas of the second need."""
    shared.run("delete", NAME, "-n", shared.namespace, "--ignore-not-found")
    shared.run("deploy", *spec.flags(FIXED, tensor=2, maxModelLen=1024, maxNumSeqs=256), "-n", shared.namespace)
    first = cluster(shared)
    flags = spec.flags(
        {"min": 3, "max": 3}, tensor=2, maxModelLen=1024, maxNumSeqs=256, env={**ENVIRONMENT, "COLOR": "green"}
    )
    changing = shared.start("deploy", *flags, "-n", shared.namespace, "--timeout", "300s")
    workers_of_first: set[str] = set()

    def made() -> bool:
        found = shared.items("pods", f"ray.io/cluster={first},ray.io/node-type=worker")
        workers_of_first.update(pod["metadata"]["name"] for pod in found)
        return changing.poll() is not None

    shared.wait("the change is made", made, timeout=400)
    _, err = changing.communicate(timeout=60)
    assert changing.returncode == 0, err
    assert len(workers_of_first) == 1, workers_of_first

    def gone() -> bool:
        return first not in {one["metadata"]["name"] for one in shared.items("rayclusters")}

    shared.wait("the first RayCluster is gone", gone, timeout=120)
    of_second = shared.items("pods", f"ray.io/cluster={cluster(shared)},ray.io/node-type=worker")
    assert [gpus(pod) for pod in of_second] == [2, 2, 2]


def test_the_pods_of_idle_replicas_end_at_once(shared: Bench) -> None:
    """Well before the time that they would give to requests, and before Ray accepts the loss of its head."""
    deleted = shared.run("delete", NAME, "-n", shared.namespace, "--timeout", "45s")
    assert "stop with their pods" not in deleted.err, str(deleted)
    assert shared.items("pods", "ray.io/cluster") == []

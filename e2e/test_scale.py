"""A thousand services and ten thousand pods: what `status -A` and `watch` ask of the API server does not grow with
their number, and `wait` ends as soon as `kubectl wait` does."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from e2e.counting import counted, counting
from e2e.crowd import Request, send_all
from e2e.harness import OWN_CLUSTER, Bench, Object, Result, Target, kubectl_program, rig
from e2e.simulate.shapes import SIMULATED

FEW, SERVICES, MANY, PODS = 5, 200, 1_000, 10_000
CPU_SECONDS = 2.0
RAY, CORE = "/apis/ray.io/v1/namespaces", "/api/v1/namespaces"
ELSEWHERE = "kueue.x-k8s.io/multikueue"
WATCHED = "watched"
"""The service that is watched: it runs on simulated nodes, with a Serve that answers."""

IDLE_SECONDS = 18.0
STARTS = 9

COMPLIANT = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


@pytest.fixture(scope="module")
def crowd(simulated_nodes: Target, shared: Bench) -> Iterator[Bench]:
    """A namespace with a service that serves, on simulated nodes, and a few that say so."""
    assert shared.target is simulated_nodes
    shared.kubectl(
        "annotate", "namespace", shared.namespace,
        f"scheduler.alpha.kubernetes.io/node-selector={SIMULATED}=true",
        'scheduler.alpha.kubernetes.io/defaultTolerations=[{"key":"kwok.x-k8s.io/node","operator":"Exists"}]',
    )  # fmt: skip
    shared.run(*shared.tiny(WATCHED))
    services(shared, range(FEW))
    yield shared
    # Faster than to delete what was made, which takes the API server most of a minute.
    rig("down")
    rig("up", *OWN_CLUSTER)


def services(bench: Bench, numbers: range) -> None:
    """Services that say of themselves, as KubeRay would, that they serve from a RayCluster of their own.

    They are left to another controller, so that KubeRay makes nothing of them.
    """
    rendered = bench.run("render", *bench.tiny("model")[1:], "-o", "json").json()["items"]
    template = next(item for item in rendered if item["kind"] == "RayService")
    made, states = [], []
    for number in numbers:
        service = deepcopy(template)
        service["metadata"] |= {"name": f"model-{number}", "namespace": bench.namespace}
        service["spec"]["managedBy"] = service["spec"]["rayClusterConfig"]["managedBy"] = ELSEWHERE
        cluster = {
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {
                "name": f"model-{number}-abcde",
                "labels": {
                    "ray.io/originated-from-cr-name": f"model-{number}",
                    "ray.io/originated-from-crd": "RayService",
                },
            },
            "spec": service["spec"]["rayClusterConfig"],
        }  # fmt: skip
        status = {"conditions": [], "activeServiceStatus": {"rayClusterName": f"model-{number}-abcde"}}
        made.append(Request("POST", f"{RAY}/{bench.namespace}/rayservices", service))
        made.append(Request("POST", f"{RAY}/{bench.namespace}/rayclusters", cluster))
        states.append(status_patch(bench, f"model-{number}", {**status, "observedGeneration": 1}))
    send_all(bench.target, made)
    send_all(bench.target, states)


def status_patch(bench: Bench, service: str, status: Object) -> Request:
    return Request("PATCH", f"{RAY}/{bench.namespace}/rayservices/{service}/status", {"status": status})


def pods(bench: Bench) -> None:
    """Pods of Ray, ten of each service, which no scheduler places on a node."""
    box = {"name": "ray-worker", "image": "ray", "securityContext": COMPLIANT}
    made = []
    for number in range(PODS):
        labels = {"ray.io/cluster": f"model-{number % MANY}-abcde", "ray.io/node-type": "worker"}
        metadata = {"name": f"model-{number}", "labels": labels}
        spec = {"schedulerName": "none", "containers": [box], "automountServiceAccountToken": False}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made.append(Request("POST", f"{CORE}/{bench.namespace}/pods", pod))
    send_all(bench.target, made)


@dataclass(frozen=True)
class Idle:
    """What `watch` of one service costs in IDLE_SECONDS in which nothing changes. CPU: share of one core."""

    requests: int
    answered: int
    cpu: float
    peak_kib: int


def idle(bench: Bench, folder: Path) -> tuple[Idle, list[str]]:
    """Two of them side by side: one to count its requests, which are returned, and one without a proxy."""
    with counting(bench, folder) as (counted_bench, proxy):
        counted_bench.start("watch", WATCHED, "-n", bench.namespace)
        plain = bench.start("watch", WATCHED, "-n", bench.namespace)
        bench.wait("watch has looked twice", lambda: len(proxy.requests) > 40, timeout=90)
        asked = list(proxy.requests)
        before, answered, cpu = len(proxy.requests), proxy.answered, cpu_seconds(plain)
        time.sleep(IDLE_SECONDS)
        used = cpu_seconds(plain) - cpu
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{plain.pid}/status").read_text())
        assert peak is not None
        found = Idle(len(proxy.requests) - before, proxy.answered - answered, used / IDLE_SECONDS, int(peak[1]))
        plain.kill()
        plain.wait()
    return found, [unquote(request) for request in asked]


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_of_all(bench: Bench) -> tuple[Result, float]:
    """`status -A` and the CPU seconds that it took."""
    before = os.times()
    result = bench.run("status", "-A", "-o", "json", code=None)
    after = os.times()
    return result, sum(after[2:4]) - sum(before[2:4])


@pytest.fixture(scope="module")
def idle_of_few(crowd: Bench, tmp_path_factory: pytest.TempPathFactory) -> Idle:
    """What watching costs beside a few services."""
    return idle(crowd, tmp_path_factory.mktemp("few"))[0]


@pytest.mark.usefixtures("idle_of_few")
def test_status_of_200_services_takes_as_many_requests_as_of_few(crowd: Bench, tmp_path: Path) -> None:
    with counted(crowd, tmp_path) as (bench, requests):
        few, _ = status_of_all(bench)
        asked_for_few = len(requests)
        services(crowd, range(FEW, SERVICES))
        requests.clear()
        many, seconds = status_of_all(bench)
    ours = [[row for row in each.json() if row["namespace"] == bench.namespace] for each in (few, many)]
    print(f"status -A: {len(ours[1])} services, {len(requests)} requests, {seconds:.2f} s CPU, {many.seconds:.2f} s")
    assert [len(rows) for rows in ours] == [FEW + 1, SERVICES + 1]
    assert len(requests) == asked_for_few, sorted(requests)
    assert seconds <= CPU_SECONDS, str(many)


def test_watching_one_service_among_a_thousand_costs_what_it_costs_among_few(
    crowd: Bench, idle_of_few: Idle, tmp_path: Path
) -> None:
    begun = time.monotonic()
    services(crowd, range(SERVICES, MANY))
    pods(crowd)
    print(f"{MANY - SERVICES} services and {PODS} pods made in {time.monotonic() - begun:.0f} s")
    found, asked = idle(crowd, tmp_path)
    print(f"watch, {IDLE_SECONDS:.0f} s: {idle_of_few} among {FEW + 1} services, {found} among {MANY + 1}")
    told = re.compile(rf"/namespaces/{crowd.namespace}/(rayservices|rayclusters|pods|services|endpointslices|events)\b")
    of_services = [request for request in asked if told.search(request)]
    assert of_services
    assert [request for request in of_services if not re.search(rf"{WATCHED}\b", request)] == []
    assert [request for request in asked if "/pods?" in request and "Selector=" not in request] == []
    # A look more or less, as the period happens to begin.
    assert found.requests <= 1.3 * idle_of_few.requests
    assert found.answered <= 1.3 * idle_of_few.answered
    assert found.cpu < 0.02
    assert found.peak_kib < 120 * 1024


def test_wait_ends_no_later_than_kubectl_wait(crowd: Bench) -> None:
    """Services start one after the other, and both commands wait for each of them.

    What changes first is the service's EndpointSlice. `wait` looks at it and asks Serve; `kubectl wait` is told by
    KubeRay's condition, which follows.
    """
    with Addresses(crowd) as addresses, ThreadPoolExecutor(2 * STARTS) as pool:
        pairs = []
        for number in range(STARTS):
            name = f"start-{number}"
            crowd.run(*crowd.tiny(name), "--no-wait")
            both = (crowd.start("wait", name, "-n", crowd.namespace), start_kubectl_wait(crowd, name))
            pairs.append((name, [pool.submit(ended, wait) for wait in both]))
            time.sleep(0.5)
        ends = {name: [wait.result() for wait in waits] for name, waits in pairs}
        # `wait` may end before what tells of the addresses here has read it.
        crowd.wait("the addresses are known", lambda: ends.keys() <= addresses.since.keys(), timeout=10, pause=0.1)
    delays = [[end - addresses.since[name] for end in both] for name, both in ends.items()]
    ours, kubectl = zip(*delays, strict=True)
    for what, seconds in (("rayllm-ctl wait", ours), ("kubectl wait", kubectl)):
        print(f"{what}: {[round(1000 * one, 1) for one in seconds]} ms, p50 {1000 * statistics.median(seconds):.1f} ms")
    assert statistics.median(ours) <= statistics.median(kubectl)


class Addresses:
    """Since when each service has addresses that take requests, as the API server tells it. Use as a context manager.

    since: time.monotonic() by the name of the service.
    """

    def __init__(self, bench: Bench) -> None:
        self.since: dict[str, float] = {}
        path = f"/apis/discovery.k8s.io/v1/namespaces/{bench.namespace}/endpointslices?watch=true"
        self._process = subprocess.Popen(
            [kubectl_program(), "get", "--raw", path],
            env=bench.target.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            item = json.loads(line)["object"]
            service = item["metadata"]["labels"]["kubernetes.io/service-name"]
            if service.endswith("-serve-svc") and any(one["conditions"]["ready"] for one in item["endpoints"] or ()):
                self.since.setdefault(service.removesuffix("-serve-svc"), time.monotonic())

    def __enter__(self) -> Addresses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def ended(process: subprocess.Popen[str]) -> float:
    """When a process ends, which must be well."""
    process.wait()  # with a time-out it would look every 50 ms only
    end = time.monotonic()
    assert process.returncode == 0
    return end


def start_kubectl_wait(bench: Bench, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [kubectl_program(), "wait", "--for=condition=Ready", f"rayservice/{name}", "-n", bench.namespace,
         "--timeout=60s"],
        env=bench.target.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

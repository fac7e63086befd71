"""A thousand LLMServices: what the controller asks when nothing changes does not grow with their number, nor does it
write, and a new process finds everything as it is. The test does KubeRay's part, for which a machine is too small."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controllers import API_VERSION, CHART, CRDS
from e2e.counting import Counting, counting
from e2e.crowd import Client, Request, send_all
from e2e.harness import OWN_CLUSTER, Bench, Object, Target, rig
from e2e.running_controller import Running, is_write
from e2e.simulated import CONTAINER_SECURITY

pytestmark = [
    pytest.mark.xdist_group("controller_scale"), pytest.mark.slow, pytest.mark.alone, pytest.mark.incremental,
]  # fmt: skip

SERVICES = 1_000
MEMORY_MB = 200
QUIET_SECONDS = 600.0
_ELSEWHERE = "kueue.x-k8s.io/multikueue"
_BEGUN = "2026-01-01T00:00:00Z"
_RAY, _CORE, _OURS = "/apis/ray.io/v1/namespaces", "/api/v1/namespaces", "/apis/rayllm.io/v1alpha1/namespaces"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces"


@pytest.fixture(scope="module")
def crowd(simulated_nodes: Target, shared: Bench) -> Iterator[Bench]:
    """A namespace with a thousand LLMServices."""
    assert shared.target is simulated_nodes
    template = (CHART / "templates" / "crds.yaml").read_text()
    definitions = "".join(line for line in template.splitlines(True) if not line.startswith("{{"))
    shared.kubectl("apply", "--server-side", "-f", "-", input_text=definitions)
    shared.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS), "--timeout=60s")
    spec = {
        "model": {"id": "tiny", "path": "/models/tiny"},
        "accelerator": {"kind": "cpu"},
        "engine": {"image": shared.target.image, "maxModelLen": 1024},
        # KubeRay leaves to others what names another manager.
        "patches": [{"target": {"kind": "RayService"}, "patch": {"spec": {"managedBy": _ELSEWHERE}}}],
    }
    bodies = [
        {"apiVersion": API_VERSION, "kind": "LLMService", "metadata": {"name": f"many-{number}"}, "spec": spec}
        for number in range(SERVICES)
    ]
    send_all(shared.target, (Request("POST", f"{_OURS}/{shared.namespace}/llmservices", body) for body in bodies))
    yield shared
    # Faster than to delete what was made.
    rig("down")
    rig("up", *OWN_CLUSTER)


@pytest.fixture(scope="module")
def watched(crowd: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Counting]]:
    """The same namespace for a controller whose requests are counted."""
    with counting(crowd, tmp_path_factory.mktemp("scale")) as (bench, proxy):
        yield bench, proxy


@pytest.fixture(scope="module")
def first(watched: tuple[Bench, Counting]) -> Iterator[Running]:
    """The first process, with the variable that the chart sets."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MALLOC_ARENA_MAX", "2")
        running = Running(watched[0], 18086)
    yield running
    if running.process.poll() is None:
        running.end()


def test_each_service_is_applied_and_ready(crowd: Bench, first: Running) -> None:
    crowd.wait("each is applied", lambda: len(_list(crowd, f"{_RAY}/{crowd.namespace}/rayservices")) == SERVICES, 580)
    play_kuberay(crowd)
    crowd.wait("each is ready", lambda: ready(first) == SERVICES, timeout=580)
    print(f"{SERVICES} services: reconciliations {first.quantile(0.95)} s (95th percentile), {memory(first):.0f} MB")
    assert memory(first) < MEMORY_MB


def test_when_quiet_it_writes_nothing_and_asks_for_nothing_of_single_services(
    crowd: Bench, watched: tuple[Bench, Counting], first: Running
) -> None:
    _, proxy = watched
    crowd.wait("it has nothing more to do", lambda: _is_quiet(proxy), timeout=580, pause=20)
    proxy.requests.clear()
    # How long it is looked at is all that these seconds are.
    until = time.monotonic() + QUIET_SECONDS
    crowd.wait("a while", lambda: time.monotonic() > until, timeout=QUIET_SECONDS * 2, pause=10)
    asked = list(proxy.requests)
    assert first.process.poll() is None, first.said
    print(f"{len(asked)} requests in {QUIET_SECONDS:.0f} s, {memory(first):.0f} MB")
    assert [one for one in asked if is_write(one)] == []
    assert [one for one in asked if "many-" in one] == []
    assert len(asked) < SERVICES / 10, sorted(asked)


def test_another_process_finds_everything_as_it_is(
    crowd: Bench, watched: tuple[Bench, Counting], first: Running
) -> None:
    bench, proxy = watched
    first.end()
    before = versions(crowd)
    proxy.requests.clear()
    second = Running(bench, 18087)
    begun = time.monotonic()
    crowd.wait("it has looked at each", lambda: second.reconciled() >= SERVICES, timeout=300)
    print(f"looked at {SERVICES} services after {time.monotonic() - begun:.0f} s")
    assert ready(second) == SERVICES
    assert [one for one in list(proxy.requests) if is_write(one)] == []
    second.end()
    assert versions(crowd) == before


def play_kuberay(bench: Bench) -> None:
    """Say of each RayService that it serves, with a RayCluster, its pods, and an address."""
    made, states = [], []
    where = bench.namespace
    for service in _list(bench, f"{_RAY}/{where}/rayservices"):
        name = service["metadata"]["name"]
        cluster, serving = f"{name}-abcde", f"{name}-serve-svc"
        origin = {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": "RayService"}
        copied = service["metadata"].get("labels") or {}
        config = {**service["spec"]["rayClusterConfig"], "managedBy": _ELSEWHERE}
        groups = [{**group, "replicas": 1} for group in config.get("workerGroupSpecs", [])]
        made.append(_post("ray.io/v1", "RayCluster", f"{_RAY}/{where}/rayclusters", cluster, origin | copied,
                          spec={**config, "workerGroupSpecs": groups}))  # fmt: skip
        for role in ("head", "worker"):
            labels = {
                "ray.io/cluster": cluster, "ray.io/node-type": role, "ray.io/group": role, "rayllm.io/service": name,
            }  # fmt: skip
            box = {"name": f"ray-{role}", "image": "ray", "securityContext": CONTAINER_SECURITY}
            pod = {"schedulerName": "none", "containers": [box], "automountServiceAccountToken": False}
            made.append(_post("v1", "Pod", f"{_CORE}/{where}/pods", f"{cluster}-{role}", labels, spec=pod))
            running: Object = {
                "name": f"ray-{role}", "ready": True, "restartCount": 0, "image": "ray", "imageID": "ray",
                "state": {"running": {"startedAt": _BEGUN}},
            }  # fmt: skip
            conditions: list[Object] = [
                {"type": type_, "status": "True", "lastTransitionTime": _BEGUN} for type_ in ("PodScheduled", "Ready")
            ]
            started: Object = {"status": {"phase": "Running", "containerStatuses": [running], "conditions": conditions}}
            states.append(Request("PATCH", f"{_CORE}/{where}/pods/{cluster}-{role}/status", started))
        ready_address: list[Object] = [{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}]
        made.append(_post("discovery.k8s.io/v1", "EndpointSlice", f"{_SLICES}/{where}/endpointslices", f"{serving}-x",
                          origin | {"kubernetes.io/service-name": serving},
                          addressType="IPv4", endpoints=ready_address, ports=[{"port": 8000}]))  # fmt: skip
        applications: Object = {
            name: {"status": "RUNNING", "serveDeploymentStatuses": {f"LLMServer:{name}": {"status": "HEALTHY"}}}
        }
        status: Object = {
            "observedGeneration": service["metadata"]["generation"], "numServeEndpoints": 1,
            "activeServiceStatus": {"rayClusterName": cluster, "applicationStatuses": applications},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "NonZeroServeEndpoints", "message": "",
                 "lastTransitionTime": _BEGUN},
            ],
        }  # fmt: skip
        states.append(Request("PATCH", f"{_RAY}/{where}/rayservices/{name}/status", {"status": status}))
        head = [{"type": "HeadPodReady", "status": "True", "reason": "HeadPodRunningAndReady", "message": "",
                 "lastTransitionTime": _BEGUN}]  # fmt: skip
        body: Object = {"status": {"head": {"serviceName": f"{cluster}-head-svc"}, "conditions": head}}
        states.append(Request("PATCH", f"{_RAY}/{where}/rayclusters/{cluster}/status", body))
    send_all(bench.target, made)
    send_all(bench.target, states)


def _post(version: str, kind: str, path: str, name: str, labels: dict[str, str], **parts: object) -> Request:
    metadata = {"name": name, "labels": labels}
    return Request("POST", path, {"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def _list(bench: Bench, path: str) -> list[Object]:
    found: list[Object] = Client(bench.target).send(Request("GET", path))["items"]
    return found


def versions(bench: Bench) -> dict[str, str]:
    """The resourceVersion of each LLMService and RayService."""
    paths = (f"{_OURS}/{bench.namespace}/llmservices", f"{_RAY}/{bench.namespace}/rayservices")
    items = [item for path in paths for item in _list(bench, path)]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


def ready(running: Running) -> int:
    """How many services the controller shows as Ready."""
    found = re.findall(
        r'^rayllm_controller_objects\{kind="LLMService",ready="True".*\} (\S+)$', running.metrics(), re.M
    )
    return int(sum(map(float, found)))


def memory(running: Running) -> float:
    """MB that the process has in memory."""
    text = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) * 1024 / 1e6


def _is_quiet(proxy: Counting) -> bool:
    """Whether nothing was written since the last call."""
    asked = list(proxy.requests)
    proxy.requests.clear()
    return not any(is_write(one) or "many-" in one for one in asked)

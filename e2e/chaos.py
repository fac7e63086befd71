"""One service under load from four clients while it is changed and what it runs in is lost: what clients and users see.

`make chaos` runs it, in about half an hour, and prints a table. Two replicas on two nodes with GCS fault tolerance, a
stand-in for the engine, everything else real. Each test builds on those before. The last one takes a node away, so the
cluster is taken down at the end.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import STAND_IN, Bench, Object, Target, rig
from e2e.load import Load
from e2e.running import Running
from e2e.test_rayoptions import redis

NAME = "chaos"
MODEL = "tiny"
LONG = 900
"""Tokens of answers that take longer than the 30 s that Kubernetes gives a pod by default, at 20 a second."""
ANSWER = 5.0
"""Seconds in which `status` has to be right."""
OPERATOR = "app.kubernetes.io/component=kuberay-operator"
LISTED = 20.0
"""Seconds after which the address of a pod on a lost node has to be out of the Service. 8 to 10 were measured."""


@dataclass
class Event:
    """What one event came to. states: what `status` said and when, in seconds since the event, without repetitions."""

    name: str
    load: Load
    states: list[tuple[float, str]] = field(default_factory=list)

    def noticed(self) -> list[float]:
        """When `status` said something else than Ready, in seconds since the event."""
        return [after for after, state in self.states if not state.startswith("Ready")]

    def row(self) -> str:
        said = "; ".join(f"{after:.0f} s {state}" for after, state in self.states)
        return f"| {self.name} | {self.load.answered} | {len(self.load.failed)} | {self.load.gap()[1]:.1f} s | {said} |"


@dataclass
class Service:
    """The service under test, its spec file, and the table so far."""

    bench: Bench
    file: Path
    image: str
    events: list[Event]
    args: dict[str, Any] = field(default_factory=dict)
    replicas: Object = field(default_factory=lambda: {"min": 2, "max": 2})
    env: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> tuple[str, ...]:
        return (NAME, "-n", self.bench.namespace)

    def command(self) -> list[str]:
        """Write the spec as it is now; the command that deploys it."""
        password = {"name": "redis", "key": "password"}
        spec = {
            "model": {"id": MODEL, "path": "/models/tiny"},
            "accelerator": {"kind": "cpu"},
            "engine": {"image": self.image, "maxModelLen": 1024, "env": {**STAND_IN, **self.env}, "args": self.args},
            "replicas": self.replicas,
            "resources": {"worker": {"memory": "3Gi"}},
            "ray": {
                "idleTimeout": "10s",
                "faultTolerance": {"redisAddress": "redis:6379", "passwordSecret": password},
            },
        }
        head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": NAME}}
        self.file.write_text(json.dumps({**head, "spec": spec}))
        return ["deploy", "-f", str(self.file), "--offline", "-n", self.bench.namespace]

    def deploy(self, *more: str) -> str:
        """Deploy the spec as it is now; what the command said."""
        return self.bench.run(*self.command(), *more).err

    def state(self) -> str:
        found = self.bench.run("status", *self.where, "-o", "json", code=None).json()
        return " ".join([found["state"], *(cause["code"] for cause in found["causes"])])

    def ready(self) -> None:
        self.bench.run("wait", *self.where, "--for", "healthy", "--timeout", "240s")

    def pods(self, kind: str) -> list[str]:
        pods = [pod["metadata"] for pod in self.bench.items("pods", f"ray.io/node-type={kind}")]
        return [pod["name"] for pod in pods if "deletionTimestamp" not in pod]

    @contextmanager
    def under_load(self, name: str, tokens: int = 16) -> Iterator[Event]:
        """Four clients, two of them streaming, and a look at `status` every second, until all is well again."""
        limit = 30 + tokens / 5
        with (
            self.bench.proxied(f"{NAME}-serve-svc") as url,
            Load(url, MODEL, clients=4, max_tokens=tokens, pause=0.1, timeout=limit, streaming=2) as load,
        ):
            if tokens == LONG:
                self.bench.wait("requests", lambda: load.begun >= 4, timeout=60)
            else:
                self.bench.wait("answers", lambda: load.answered > 8, timeout=60)
            event, stop, begin = Event(name, load), threading.Event(), time.monotonic()

            def look() -> None:
                while not stop.wait(1):
                    state = self.state()
                    if not event.states or event.states[-1][1] != state:
                        event.states.append((time.monotonic() - begin, state))

            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            yield event
            self.ready()
            done = load.answered
            self.bench.wait("answers afterwards", lambda: load.answered > done + 8, timeout=limit * 3)
            stop.set()
            looking.join(30)
        self.events.append(event)
        print(f"\n{event.row()}")
        for one in load.failed[:3]:
            print(f"  at {one.begin:.1f} s, after {one.seconds:.1f} s: {one.error}")


@pytest.fixture(scope="module")
def service(
    nodes_to_lose: Target, redis_image: str, shared: Bench, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    shared.apply(*redis(redis_image))
    made = Service(shared, tmp_path_factory.mktemp("chaos") / "spec.json", nodes_to_lose.image, [])
    made.deploy()
    yield made
    print("\n| event | answered | failed | longest gap | status |\n|---|---|---|---|---|")
    for event in made.events:
        print(event.row())


def test_bounds(service: Service) -> None:
    with service.under_load("bounds 2 → 3 → 2") as event:
        service.bench.run("scale", *service.where, "--replicas", "3")
        service.bench.run("scale", *service.where, "--replicas", "2")
    assert not event.load.failed


def test_an_engine_argument_with_two_replicas(service: Service) -> None:
    service.args = {"enable_prefix_caching": False}
    with service.under_load("engine argument, two replicas") as event:
        service.deploy()
    assert not event.load.failed


def test_a_rollback(service: Service) -> None:
    with service.under_load("rollback of the engine argument") as event:
        service.bench.run("rollback", *service.where)
    assert not event.load.failed
    service.args = {}


def test_a_second_ray_cluster(service: Service) -> None:
    service.env = {"COLOR": "blue"}
    with service.under_load("second RayCluster (environment variable)") as event:
        service.deploy()
    assert not event.load.failed


def test_an_engine_argument_on_a_second_ray_cluster(service: Service) -> None:
    service.args = {"enable_prefix_caching": False}
    with service.under_load("engine argument, --upgrade new-cluster") as event:
        service.deploy("--upgrade", "new-cluster")
    assert not event.load.failed


def test_a_surge_of_the_only_replica(service: Service) -> None:
    service.replicas = {"min": 1, "max": 1}
    service.deploy()
    service.args = {"enable_prefix_caching": True}
    with service.under_load("engine argument, one replica, surge") as event:
        assert "surge: " in service.deploy()
    assert not event.load.failed


def test_the_only_replica_in_place(service: Service) -> None:
    service.args = {"enable_prefix_caching": False}
    with service.under_load("engine argument, one replica, --accept-outage"):
        service.deploy("--upgrade", "in-place", "--accept-outage")
    service.replicas = {"min": 2, "max": 2}
    service.deploy()


def lost(service: Service, kind: str, *flags: str) -> Callable[[], None]:
    def delete() -> None:
        name = service.pods(kind)[0]
        service.bench.kubectl("delete", "pod", name, "-n", service.bench.namespace, "--wait=false", *flags)

    return delete


@pytest.mark.parametrize("kind", ["worker", "head"])
@pytest.mark.parametrize("how", ["deleted", "killed"])
def test_the_loss_of_a_pod(service: Service, kind: str, how: str) -> None:
    """None beyond the requests that the pod was serving: at most one of each client."""
    flags = ("--grace-period=0", "--force") if how == "killed" else ()
    with service.under_load(f"{kind} pod {how}") as event:
        lost(service, kind, *flags)()
        service.bench.wait("status notices", event.noticed, timeout=60)
    assert len(event.load.failed) <= 4, event.load.figures()
    assert event.noticed()[0] <= ANSWER + 1, event.states


def operators(bench: Bench) -> list[Object]:
    """The pods of the KubeRay operator."""
    found: list[Object] = json.loads(bench.kubectl("get", "pods", "-A", "-l", OPERATOR, "-o", "json"))["items"]
    return found


def restart_operator(bench: Bench) -> None:
    """Kill the KubeRay operator, and wait until another one is Ready.

    Its Deployment would not do: its status is that of the killed one until its controller has looked.
    """
    killed = {uid(pod) for pod in operators(bench)}
    assert killed
    bench.kubectl("delete", "pods", "-A", "-l", OPERATOR, "--grace-period=0", "--force")
    bench.wait(
        "another operator", lambda: any(is_ready(pod) for pod in operators(bench) if uid(pod) not in killed), 110
    )


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready of a pod is True."""
    conditions = pod["status"].get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def test_the_operator_restarts(service: Service) -> None:
    with service.under_load("operator killed") as event:
        restart_operator(service.bench)
    assert not event.load.failed


@pytest.mark.parametrize("what", ["worker", "head"])
def test_a_drained_node_and_long_answers(service: Service, what: str) -> None:
    """Everything that runs on the node of a worker, or of the head, goes to the other one. No answer breaks off."""
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in service.bench.items("pods")}
    head = nodes[service.pods("head")[0]]
    node = head if what == "head" else next(one for one in nodes.values() if one != head)
    with service.under_load(f"node of the {what} drained, answers of {LONG / 20:.0f} s", LONG) as event:
        try:
            service.bench.kubectl(
                "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=400s", "--force",
                f"--pod-selector=rayllm.io/service={NAME}", timeout=420,
            )  # fmt: skip
        finally:
            service.bench.kubectl("uncordon", node)
    assert not event.load.failed
    service.bench.run("restart", *service.where)  # over both nodes again


def test_two_commands_at_once(service: Service) -> None:
    """Both end by themselves, and the service is as one of them has it."""
    with service.under_load("two deployments at once") as event:
        commands = []
        for number, value in enumerate((True, False)):
            service.args, service.file = {"enable_prefix_caching": value}, service.file.with_name(f"{number}.json")
            commands.append(service.command())
        started = [service.bench.start(*command) for command in commands]
        ended = [(process.communicate(timeout=400)[1], process.returncode) for process in started]
    assert all(code in (0, 4) for _, code in ended), ended
    assert any(code == 0 for _, code in ended), ended
    assert not event.load.failed
    differences = [service.bench.run("diff", *command[1:], code=None).code for command in commands]
    assert sorted(differences) == [0, 1], differences


def test_the_api_server_stands_still(service: Service) -> None:
    """A change ends with a plain error, watch continues, and the same change is made afterwards."""
    processes = json.loads(rig("status", "-o", "json").stdout)["processes"]
    (pid,) = (one["pid"] for one in processes if one["name"] == "kube-apiserver")
    resume = threading.Timer(15, os.kill, (pid, signal.SIGCONT))
    watch = Running(service.bench, "watch", *service.where, "--timeout", "40s")
    watch.says("replicas .* running")
    os.kill(pid, signal.SIGSTOP)
    resume.start()
    refused = service.bench.run("scale", *service.where, "--replicas", "3", code=5)
    assert "no answer within the time limit" in refused.err, str(refused)
    code, err = watch.ended()
    assert code == 0, err
    service.bench.run("scale", *service.where, "--replicas", "3")
    service.bench.run("scale", *service.where, "--replicas", "2")


def beside_redis(service: Service) -> str:
    """Have the head and the operator run on the node of the Redis, which are not to be lost with it. The other node.

    Without the operator the Service would keep the addresses of a lost node until Kubernetes gives the node up, 50 s.
    """
    bench = service.bench
    bench.wait("the RayCluster before this one is gone", lambda: len(service.pods("head")) == 1, timeout=180)
    nodes: dict[str, str] = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in bench.items("pods")}
    head, keep = service.pods("head")[0], nodes["redis"]
    other = next(one for one in nodes.values() if one != keep)
    bench.kubectl("cordon", other)
    try:
        if any(pod["spec"].get("nodeName") == other for pod in operators(bench)):
            restart_operator(bench)
        if nodes[head] != keep:
            bench.kubectl("delete", "pod", head, "-n", bench.namespace)
            service.ready()
    finally:
        bench.kubectl("uncordon", other)
    return other


def test_a_node_is_gone(service: Service) -> None:
    """That of a worker, without notice. It is said as soon as Ray knows, which takes 4 s.

    Each client loses at most the request that the node had. Later ones fail where they were sent to its address, which
    the Service has until the pod is removed; those that reached another pod are all answered.
    """
    service.bench.run("restart", *service.where)  # one worker on each node; see docs/how-to/changes.md for two
    node = beside_redis(service)
    processes = json.loads(rig("status", "-o", "json").stdout)["processes"]
    (pid,) = (one["pid"] for one in processes if one["name"] == f"{node}-holder")
    with service.under_load("node gone") as event:
        os.kill(pid, signal.SIGKILL)
        loss = event.load.now
        away = ("wait", f"node/{node}", "--for=condition=Ready=Unknown", "--timeout=110s")
        service.bench.kubectl(*away)
        service.bench.kubectl("delete", "node", node)  # as a cloud's controller does
    later = [one for one in event.load.failed if one.begin > loss]
    print(event.load.figures(), f"{len(later)} of the failed were sent after the loss", sep="; ")
    assert all("dial tcp" in one.error or one.seconds > ANSWER for one in later), later
    assert all(one.begin < loss + LISTED for one in later), (loss, later)
    assert event.noticed(), event.states
    # It reads the log of the lost replica, for which it waits for 2 s.
    assert event.noticed()[0] <= ANSWER + 1 + 2, event.states

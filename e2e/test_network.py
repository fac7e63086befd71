"""security.network: restricted, with real connections: from pods on both nodes, the operator and the API server.

Only in the project's own cluster is it known that policies are enforced. And what `check --security` says of it, and of
a RayCluster that says nothing about security.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.layout import HOST_ADDRESS
from e2e.harness import LLAMA, STAND_IN_FLAGS, Bench, Object

pytestmark = pytest.mark.own_policies
SIMULATED = pytest.mark.xdist_group("simulated")
"""Of the tests that run on simulated nodes; the other one has a group of its own."""

NAME = "closed"
Address = tuple[str, int]
API, DASHBOARD = 8000, 8265
RAY = (6379, 10001, 8080, 44217, 52365)
"""Ray's GCS, its client's server, the metrics of the head and of the autoscaler, the agent. All of them listen."""

CONNECT = """
import concurrent.futures, json, socket, sys
def connects(target):
    try:
        socket.create_connection(target, 3).close()
    except OSError:
        return False
    return True
targets = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(targets)) as pool:
    print(json.dumps([target for target, reached in zip(targets, pool.map(connects, targets)) if reached]))
"""


SUBMIT = """
import json, sys, urllib.error, urllib.request
body = json.dumps({"entrypoint": "id"}).encode()
request = urllib.request.Request(f"http://{sys.argv[1]}:8265/api/jobs/", body, {"Content-Type": "application/json"})
try:
    print(urllib.request.urlopen(request, timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print("no connection", error)
"""
"""Submits a job to Ray without its token; what becomes of it."""


def client(bench: Bench, name: str, node: str, app: str) -> Object:
    """A pod that only waits."""
    context = {
        "runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    container = {"name": "main", "image": bench.target.image, "command": ["sleep", "infinity"]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                 "containers": [container | {"securityContext": context}]},
    }  # fmt: skip


def reached(bench: Bench, pod: str, targets: set[Address]) -> set[Address]:
    """Those of the targets to which a pod can connect."""
    given = json.dumps(sorted(targets))
    said = bench.kubectl("exec", "-n", bench.namespace, pod, "--", "python3", "-c", CONNECT, given)
    return {(host, port) for host, port in json.loads(said)}


def settles(bench: Bench, pod: str, targets: set[Address], expected: set[Address]) -> None:
    """Wait until a pod reaches what it may and nothing else: policies take effect some time after they changed."""
    seen: list[set[Address]] = []

    def as_expected() -> bool:
        seen.append(reached(bench, pod, targets))
        return seen[-1] == expected

    try:
        bench.wait(f"what {pod} reaches", as_expected, timeout=90)
    finally:
        assert seen[-1] == expected, f"{pod}: {seen}"


def spec(bench: Bench, folder: Path, *dashboard: Object) -> str:
    """A spec file that admits pods with the label app=web, and the API server to the API."""
    document = yaml.safe_load(bench.run("init", *bench.tiny(NAME, *STAND_IN_FLAGS)[1:]).out)
    clients = [{"podSelector": {"matchLabels": {"app": "web"}}}, {"ipBlock": {"cidr": f"{HOST_ADDRESS}/32"}}]
    document["spec"]["security"] = {"network": "restricted", "allowFrom": clients, "allowDashboardFrom": dashboard}
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def state(bench: Bench) -> Any:
    return bench.run("status", NAME, "-n", bench.namespace, "-o", "json").json()


def security(bench: Bench, name: str, code: int) -> dict[str, Any]:
    """What `check --security` found, by name."""
    document = bench.run("check", "--security", name, "-n", bench.namespace, "-o", "json", code=code).json()
    return {check["name"]: check for check in document["checks"]}


def failed(checks: dict[str, Any]) -> set[str]:
    return {name for name, check in checks.items() if check["ok"] is False}


@pytest.mark.xdist_group("network")
@pytest.mark.usefixtures("two_nodes_with_policies")
def test_a_restricted_network_admits_whom_it_names_and_nobody_else(bench: Bench, tmp_path: Path) -> None:
    clients = {"web-1": ("n1", "web"), "web-2": ("n2", "web"), "other-1": ("n1", "other"), "other-2": ("n2", "other")}
    bench.apply(*(client(bench, name, node, app) for name, (node, app) in clients.items()))

    # That it becomes ready shows that the kubelet's probes pass, and that the operator reaches dashboard and proxies.
    bench.run("deploy", "-f", spec(bench, tmp_path))
    assert (state(bench)["state"], state(bench)["replicasVerified"]) == ("Ready", False)
    assert bench.run("chat", NAME, "Hello", "-n", bench.namespace, "--max-tokens", "8").out.strip()

    members = bench.items("pods", f"rayllm.io/service={NAME}")
    pods = {item["metadata"]["labels"]["ray.io/node-type"]: item for item in members}
    head, worker = (pods[kind]["status"]["podIP"] for kind in ("head", "worker"))
    api = {(head, API), (worker, API)}
    every = api | {(head, DASHBOARD), *((head, port) for port in RAY)}
    assert reached(bench, pods["worker"]["metadata"]["name"], every) == every
    bench.kubectl("wait", "-n", bench.namespace, "--for=condition=Ready", *(f"pod/{name}" for name in clients))
    for name, (_, app) in clients.items():
        settles(bench, name, every, api if app == "web" else set())

    # A job is submitted from another namespace, and from a pod that the policy admits.
    stranger = Bench(bench.target, f"{bench.namespace}-2")
    bench.kubectl("create", "namespace", stranger.namespace)
    try:
        stranger.apply(client(bench, "stranger", "n2", "web"))
        bench.kubectl("wait", "-n", stranger.namespace, "--for=condition=Ready", "pod/stranger", "--timeout=60s")
        submit = ("--", "python3", "-c", SUBMIT, head)
        assert "no connection" in bench.kubectl("exec", "-n", stranger.namespace, "stranger", *submit)
        worker_pod = pods["worker"]["metadata"]["name"]
        assert bench.kubectl("exec", "-n", bench.namespace, worker_pod, *submit).strip() == "401"
    finally:
        stranger.close()

    # The dashboard for the API server as well: the policy alone changes, and status sees the replicas.
    generation = bench.get("rayservice", NAME)["metadata"]["generation"]
    changed = bench.run("deploy", "-f", spec(bench, tmp_path, {"ipBlock": {"cidr": f"{HOST_ADDRESS}/32"}}))
    assert f"networkpolicy/{NAME} configured" in changed.err, str(changed)
    assert bench.get("rayservice", NAME)["metadata"]["generation"] == generation
    assert state(bench)["replicasVerified"]
    settles(bench, "web-1", every, api)
    settles(bench, "other-2", every, set())

    found = security(bench, NAME, code=0)
    assert found["token authentication"]["ok"] is True
    assert f"{HOST_ADDRESS}/32" in found["dashboard (8265)"]["detail"]
    assert found["GCS (6379)"]["detail"] == f"open to pods with rayllm.io/service={NAME}"
    assert found["enforcement"]["ok"] is None
    assert found["API keys"]["detail"].startswith("not required")


@SIMULATED
def test_a_raycluster_of_somebody_else_is_open_as_kuberay_makes_it(simulated: Bench) -> None:
    """Of simulated pods: what KubeRay and the API server's admission put into them counts, and nothing runs."""
    enforced = "pod-security.kubernetes.io/enforce=privileged"
    simulated.kubectl("label", "--overwrite", "namespace", simulated.namespace, enforced)

    def template(name: str) -> Object:
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
        return {"spec": {"containers": [{"name": name, "image": simulated.target.image, "resources": resources}]}}

    spec = {
        "rayVersion": "2.60.0",
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head"), "serviceType": "NodePort"},
        "workerGroupSpecs": [{
            "groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 2, "rayStartParams": {},
            "template": template("ray-worker"),
        }],
    }  # fmt: skip
    simulated.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "plain"}, "spec": spec})
    simulated.wait("both pods", lambda: len(simulated.items("pods", "ray.io/cluster=plain")) == 2, timeout=60)

    found = security(simulated, "plain", code=1)
    assert failed(found) == {
        "token authentication", "NetworkPolicy", "token in head", "token in group small", "head/ray-head",
        "head/autoscaler", "group small/wait-gcs-ready", "group small/ray-worker", "Pod Security of head",
        "Pod Security of group small", "service/plain-head-svc",
    }, found  # fmt: skip
    assert found["token in head"]["detail"].startswith("that of plain in ray-head, autoscaler")
    assert found["rights of plain"]["ok"] is True, "KubeRay's Role is what the autoscaler needs"
    assert found["rights of default"]["ok"] is True
    assert "dashboard (8265)" in found["service/plain-head-svc"]["detail"]

    policy = {"podSelector": {"matchLabels": {"ray.io/cluster": "plain"}}, "ingress": [{"ports": [{"port": 8000}]}]}
    manifest = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "plain"}}
    simulated.apply({**manifest, "spec": policy})
    found = security(simulated, "plain", code=1)
    assert "NetworkPolicy" not in failed(found)
    assert found["dashboard (8265)"]["detail"] == "open to nobody"
    assert found["Serve (8000)"]["detail"] == "open to everyone"


@SIMULATED
def test_a_service_with_a_policy_is_closed(simulated: Bench, tmp_path: Path) -> None:
    document = yaml.safe_load(simulated.run("init", *LLAMA[1:], "--name", "shut", "--tp", "4").out)
    document["spec"] |= {"security": {"network": "restricted"}}
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    simulated.run("deploy", "-f", str(path), "-n", simulated.namespace, "--offline")
    found = security(simulated, "shut", code=0)
    assert failed(found) == set()
    assert found["token authentication"]["ok"] is True
    assert found["token in head"]["detail"].endswith("in autoscaler alone, which adds and removes workers with it")
    assert found["Pod Security of head"]["detail"] == found["Pod Security of group gpu"]["detail"] == "restricted"

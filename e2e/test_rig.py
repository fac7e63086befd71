"""The local cluster itself: it comes up, does what a cluster does, survives its own death, and leaves nothing behind.

These tests take the machine's one cluster up and down: they skip if one is up, and must run before those that use it.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import build, cache, cgroups, clean, layout, lock, modules, node, sysctls
from e2e.cluster.state import Options
from e2e.images.serving import REF

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.slow, pytest.mark.alone, pytest.mark.incremental]

KUBECTL = build.program(modules.KUBERNETES, "kubectl")
LIMIT_SECONDS = 180
"""For anything that the tests wait for."""
COMMAND = [sys.executable, "-m", "e2e.cluster"]
UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED)
WATCHED = (
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/run/containerd",
    "/run/netns",
    "/var/log/containers",
    "/opt/containerd",
)

PODS = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {{matchLabels: {{app: web}}}}
      containers:
      - name: web
        image: {REF}
        command: [sh, -c, "hostname > /srv/index.html; echo serving; exec python3 -m http.server 8000 -d /srv"]
        readinessProbe: {{httpGet: {{path: /, port: 8000}}, periodSeconds: 1}}
        volumeMounts: [{{name: shared, mountPath: /shared}}]
      volumes: [{{name: shared, hostPath: {{path: SHARED, type: DirectoryOrCreate}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8000}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: greedy}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: {REF}
    command: [python3, -c, "bytearray(2**30)"]
    resources: {{limits: {{memory: 64Mi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: imageless}}
spec:
  containers: [{{name: main, image: "registry.example.com/nobody/nothing:1"}}]
"""


def rig(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def kubectl(*arguments: str, text: str | None = None) -> str:
    environment = {**os.environ, "KUBECONFIG": str(layout.current_run().kubeconfig)}
    argv = [str(KUBECTL), *arguments]
    done = subprocess.run(
        argv, env=environment, input=text, capture_output=True, text=True, timeout=2 * LIMIT_SECONDS, check=False
    )
    assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
    return done.stdout


def pod(name: str) -> Any:
    return json.loads(kubectl("get", "pod", name, "-o", "json"))["status"]


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {LIMIT_SECONDS} s for {what}"
        time.sleep(0.2)


def say(*argv: str) -> list[str]:
    return sorted(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


def processes() -> list[str]:
    """Living processes whose program or arguments lie in the cache."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(layout.current_run().directory) in arguments or "containerd-shim" in arguments:
                found.append(arguments)
    return found


def machine() -> dict[str, object]:
    """All of this machine's state that a cluster could change, and nothing that others change meanwhile."""
    ours = (str(cache.root()), *(f" {path}" for path in (*node.MOUNT_POINTS, "/etc/resolv.conf", "/sys/", "/proc/")))
    return {
        "processes": processes(),
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if any(p in line for p in ours)],
        "links": say("ip", "-brief", "link"),
        "routes": say("ip", "route", "show", "table", "all"),
        "rules": say("nft", "list", "ruleset"),
        "control groups": [group for group in (layout.CGROUP, layout.IMPORT_CGROUP) if cgroups.exists(group)],
        "settings": sysctls.current(),
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "directories": [path for path in WATCHED if Path(path).exists()],
        "run directory": layout.current_run().directory.exists(),
    }


def assert_as(before: dict[str, object]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while machine() != before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert machine() == before


@pytest.fixture(scope="module", autouse=True)
def before(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The machine before the first cluster; at the end there is none again."""
    if request.config.getoption("--cluster") != "own":
        pytest.skip("tests the project's own cluster")
    if clean.anything_left(layout.current_run()):
        pytest.skip("a cluster is up and may be in use: python -m e2e.cluster down")
    if build.missing(Options()):
        # The first start needs packages, which are meant to stay.
        rig("up")
        rig("down")
    yield machine()
    rig("down")


def test_a_cluster_comes_up_with_its_operator() -> None:
    rig("up", "--nodes", "2", "--network-policies")
    status = json.loads(rig("status", "-o", "json").stdout)
    assert status["up"]
    assert [item["name"] for item in status["nodes"] if item["ready"]] == ["n1", "n2"]
    assert all(process["alive"] for process in status["processes"])
    operator = json.loads(kubectl("-n", "kuberay-system", "get", "deployment", "kuberay-operator", "-o", "json"))
    assert operator["status"]["availableReplicas"] == 1
    kubectl("get", "crd", "rayservices.ray.io")


def test_up_again_changes_nothing() -> None:
    pids = [process["pid"] for process in json.loads(rig("status", "-o", "json").stdout)["processes"]]
    assert "up already" in rig("up", "--nodes", "2").stderr
    assert pids == [process["pid"] for process in json.loads(rig("status", "-o", "json").stdout)["processes"]]


def test_up_with_less_finds_the_cluster_up_and_with_more_is_refused() -> None:
    assert "up already" in rig("up", "--nodes", "1").stderr
    refused = rig("up", "--nodes", "3", "--network-policies", code=1)
    assert "a cluster of other options is up: --nodes 2 --network-policies" in refused.stderr
    assert "down" in refused.stderr


def test_a_second_change_at_once_is_refused() -> None:
    with lock.exclusive("test"):
        assert f"process {os.getpid()}" in rig("up", "--nodes", "2", code=1).stderr
        assert f"process {os.getpid()}" in rig("down", code=1).stderr


def test_the_cluster_of_another_cache_directory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = cache.root().parents[1]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for command in ("up", "down"):
        assert f"XDG_CACHE_HOME={owner}" in rig(command, code=1).stderr


def test_pods_do_what_pods_do(tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", text=PODS.replace("SHARED", str(tmp_path)))

    def waiting_for_image() -> bool:
        states = pod("imageless").get("containerStatuses", [])
        return any(s["state"].get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff") for s in states)

    def out_of_memory() -> bool:
        states = pod("greedy").get("containerStatuses", [])
        return any(s["state"].get("terminated", {}).get("reason") == "OOMKilled" for s in states)

    until(waiting_for_image, "the error of an image that does not exist")
    until(out_of_memory, "OOMKilled")
    kubectl("wait", "--for=condition=Available", "deployment/web", f"--timeout={LIMIT_SECONDS}s")
    pods = json.loads(kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    names = [item["metadata"]["name"] for item in pods]
    assert {item["spec"]["nodeName"] for item in pods} == {"n1", "n2"}
    assert "serving" in kubectl("logs", names[0])

    # Both pods answer at the service's name, from each pod: across nodes, and from a pod to itself.
    ask = (
        "import urllib.request as request\n"
        "for _ in range(20):\n"
        "  try: print(request.urlopen('http://web', timeout=5).read().decode().strip())\n"
        "  except OSError as error: print(error)\n"
    )

    def all_answer(name: str) -> bool:
        answers = kubectl("exec", name, "--", "python3", "-c", ask)
        return all(other in answers for other in names)

    for name in names:
        # kube-proxy takes up a new endpoint within a second or two.
        until(partial(all_answer, name), f"answers of both pods in {name}")
    # The same through the API server, and from the host.
    assert kubectl("get", "--raw", "/api/v1/namespaces/default/services/web/proxy/").strip() in names

    kubectl("exec", names[0], "--", "sh", "-c", "echo kept > /shared/file")
    assert (tmp_path / "file").read_text() == "kept\n"
    # Nothing leads out of the machine, and that shows at once: a time-out would have no error number.
    outside = "import socket\ntry: socket.create_connection(('192.0.2.1', 80), 60)\nexcept OSError as e: print(e.errno)"
    assert int(kubectl("exec", names[0], "--", "python3", "-c", outside)) in UNREACHABLE


def test_a_network_policy_is_enforced_on_each_node_and_between_them() -> None:
    """Over the two pods of the test before, one on each node."""
    pods = json.loads(kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    names, addresses = [item["metadata"]["name"] for item in pods], [item["status"]["podIP"] for item in pods]
    nodes = [item["spec"]["nodeName"] for item in pods]
    for index, node_name in enumerate(nodes):
        on_node = f"--overrides={json.dumps({'spec': {'nodeName': node_name}})}"
        kubectl("run", f"asks-{index}", f"--image={REF}", on_node, "--", "sleep", "infinity")
    kubectl("wait", "--for=condition=Ready", "pod/asks-0", "pod/asks-1", f"--timeout={LIMIT_SECONDS}s")

    def reached() -> int:
        ask = (
            "import socket\n"
            f"for address in {addresses}:\n"
            "  try: socket.create_connection((address, 8000), 3).close(); print(address)\n"
            "  except OSError: pass"
        )
        return sum(len(kubectl("exec", f"asks-{index}", "--", "python3", "-c", ask).split()) for index in (0, 1))

    def policy(*ingress: object) -> None:
        spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": ingress}
        document = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "web"}}
        kubectl("apply", "-f", "-", text=json.dumps({**document, "spec": spec}))

    assert reached() == 4
    policy()
    until(lambda: reached() == 0, "connections to be refused")
    policy({"from": [{"podSelector": {"matchLabels": {"run": "asks-0"}}}], "ports": [{"port": 8000}]})
    until(lambda: reached() == 2, "the connections of one client")
    # The kubelet's probes continue.
    assert all(pod(name)["containerStatuses"][0]["ready"] for name in names)
    kubectl("delete", "networkpolicy", "web")
    until(lambda: reached() == 4, "connections from all clients")


def test_a_cluster_whose_processes_were_killed_is_replaced() -> None:
    for pid in cgroups.processes(layout.CGROUP):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    until(lambda: not cgroups.processes(layout.CGROUP), "the end of all processes")
    assert "NOT WORKING" in rig("status", code=1).stdout
    assert "clearing what is left" in rig("up", "--nodes", "2").stderr
    assert rig("status").returncode == 0
    assert "No resources" in kubectl("get", "pods") or not kubectl("get", "pods")


def test_a_start_that_was_killed_half_way_is_cleared_by_the_next() -> None:
    rig("down")
    starting = subprocess.Popen([*COMMAND, "up"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert starting.stderr
    assert any("API server ready" in line for line in starting.stderr)
    starting.kill()
    starting.wait()
    rig("status", code=1)
    assert "clearing what is left" in rig("up", "--nodes", "2").stderr


def test_a_start_that_is_interrupted_clears_up_itself(before: dict[str, object]) -> None:
    rig("down")
    starting = subprocess.Popen([*COMMAND, "up"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert starting.stderr
    assert any("API server ready" in line for line in starting.stderr)
    starting.terminate()
    assert starting.wait(LIMIT_SECONDS) != 0
    assert_as(before)


def test_down_leaves_nothing(before: dict[str, object]) -> None:
    rig("up", "--nodes", "1")
    assert machine() != before
    rig("down")
    assert_as(before)
    rig("down")

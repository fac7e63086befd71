"""What the tests on a real cluster share: the command line as a user runs it, kubectl, and dumps on failure."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.simulate.shapes import MARK, SIMULATED

Object = dict[str, Any]

OWN_CLUSTER = (
    "--nodes", "2", "--simulate", "H100-80GB:8x2", "--claim-gpus", "H100-80GB:8", "--network-policies",
)  # fmt: skip
"""What the tests ask of the project's own cluster: two real nodes, one claiming GPUs, two simulated ones, and policies
that are enforced."""

ON_SIMULATED = ("--node-selector", f"{SIMULATED}=true", "--toleration", MARK)
"""Also said to the API server of a test's namespace. The command has to know it as well where it counts free GPUs: it
would count those of the node that claims them, which other tests use meanwhile."""

SCHEDULED_ON_SIMULATED = {"nodeSelector": {SIMULATED: "true"}, "tolerations": [{"key": MARK}]}
"""The same in a spec file."""

LLAMA = (
    "deploy", "--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "H100-80GB", "--offline", *ON_SIMULATED,
)  # fmt: skip
"""Deploys a model of four GPUs per replica, which simulated nodes take to Ready within seconds."""


_AS_STORED = ("-o", "json", "--show-managed-fields")


def rig(*args: str) -> subprocess.CompletedProcess[str]:
    """`python -m e2e.cluster`; its progress goes to our standard error."""
    return subprocess.run([sys.executable, "-m", "e2e.cluster", *args], stdout=subprocess.PIPE, text=True, check=False)


def kubectl_program() -> str:
    """The kubectl that the project builds, where it has been built, else the user's own."""
    from e2e.cluster import build, modules

    own = build.program(modules.KUBERNETES, "kubectl")
    return str(own) if own.exists() else "kubectl"


STAND_IN = {"RAYLLM_VLLM_ENGINE_CLS": "rayllm_standin.engine:StandInEngine"}
"""Environment of a service with the stand-in for an engine: it starts in seconds, for tests of what is around it."""

STAND_IN_FLAGS = tuple(part for name, value in STAND_IN.items() for part in ("--env", f"{name}={value}"))

ENDS_SOON = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "10"}
"""Environment of a service that tests delete: its answers take a second, and its pods would wait for two minutes."""

ENDS_SOON_FLAGS = tuple(part for name, value in ENDS_SOON.items() for part in ("--env", f"{name}={value}"))


@dataclass(frozen=True)
class Result:
    """A finished command. `seconds` is its wall time."""

    args: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return (
            f"$ rayllm-ctl {' '.join(self.args)}\nexit {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"
        )


@dataclass(frozen=True)
class Target:
    """The cluster under test: where it is, which image serves there, and whether it is the project's own."""

    kubeconfig: Path
    image: str
    own: bool

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


@dataclass
class Bench:
    """A namespace of one test (or one module) and the tools to work in it."""

    target: Target
    namespace: str
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """rayllm-ctl in the background; ended with the bench."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rayllm_ctl", *args],
            env=self.target.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def with_token(self, token: str, folder: Path) -> Bench:
        """The same bench with a bearer token instead of the kubeconfig's own credentials; its file is in `folder`."""
        config = yaml.safe_load(self.target.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = folder / "token-config"
        path.write_text(yaml.safe_dump(config))
        return Bench(replace(self.target, kubeconfig=path), self.namespace)

    def run(self, *args: str, timeout: float = 420, code: int | None = 0) -> Result:
        """rayllm-ctl with `args`; asserts its exit code unless `code` is None."""
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "rayllm_ctl", *args],
            env=self.target.environment, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        result = Result(args, done.returncode, done.stdout, done.stderr, time.monotonic() - begin)
        assert "Traceback" not in result.err, str(result)
        if code is not None:
            assert result.code == code, str(result)
        return result

    def kubectl(self, *args: str, check: bool = True, input_text: str | None = None, timeout: float = 120) -> str:
        """kubectl's standard output."""
        end = time.monotonic() + timeout
        while True:
            done = subprocess.run(
                [kubectl_program(), *args],
                env=self.target.environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                input=input_text,
            )
            # With both cores busy the API server may close a connection, or not make one: then nothing was sent.
            unsent = "TLS handshake timeout" in done.stderr
            lost = args[0] == "get" and "Unable to connect to the server" in done.stderr
            if not (done.returncode and (unsent or lost)) or time.monotonic() > end:
                break
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr}")
        return done.stdout

    def get(self, kind: str, name: str) -> Object:
        """One object of the namespace."""
        found: Object = json.loads(self.kubectl("get", kind, name, "-n", self.namespace, *_AS_STORED))
        return found

    def items(self, kind: str, selector: str = "") -> list[Object]:
        """Objects of the namespace, with a label selector."""
        args = ["get", kind, "-n", self.namespace, *_AS_STORED] + (["-l", selector] if selector else [])
        items: list[Object] = json.loads(self.kubectl(*args))["items"]
        return items

    def apply(self, *objects: Object) -> None:
        """Apply objects in the namespace."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--server-side", "-n", self.namespace, "-f", "-", input_text=json.dumps(listed))

    def tiny(self, name: str, *more: str) -> list[str]:
        """The flags that deploy the tiny model of the test image on CPU, and what all tests set."""
        return ["deploy", "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", name,
                "--image", self.target.image, "-n", self.namespace, *more]  # fmt: skip

    def copy_tiny(self, folder: Path) -> None:
        """Copy the tiny model of the test image into `folder`, by way of a pod."""
        context = {
            "runAsNonRoot": True, "runAsUser": 1000, "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        }  # fmt: skip
        container = {"name": "main", "image": self.target.image, "command": ["sleep", "infinity"]}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [{**container, "securityContext": context}]}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "files"}, "spec": spec})
        self.kubectl("wait", "pod/files", "-n", self.namespace, "--for=condition=Ready", "--timeout=100s")
        self.kubectl("cp", f"{self.namespace}/files:/models/tiny", str(folder))
        self.kubectl("delete", "pod", "files", "-n", self.namespace)

    def apply_rendered(self, service: str, *flags: str) -> None:
        """Apply what `render` prints, as GitOps does, and wait until the operator has seen it."""
        manifest = self.run("render", *flags).out
        args = ("apply", "--server-side", "--field-manager=rayllm-ctl", "-n", self.namespace, "-f", "-")
        self.kubectl(*args, input_text=manifest)

        def seen() -> bool:
            item = self.get("rayservice", service)
            return bool(item["status"].get("observedGeneration") == item["metadata"]["generation"])

        self.wait("the operator sees the change", seen, timeout=60)

    def effects(self, *flags: str) -> set[str]:
        """The effects that `diff` says a change would have."""
        document = self.run("diff", *flags, "-n", self.namespace, "-o", "json", code=1).json()
        return set(document["effects"])

    def wait(self, what: str, condition: Callable[[], Any], timeout: float, pause: float = 1.0) -> Any:
        """The first true answer of `condition`; fails with `what` after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            answer = condition()
            if answer:
                return answer
            assert time.monotonic() < end, f"not within {timeout:.0f} s: {what}"
            time.sleep(pause)

    @contextmanager
    def forwarded(self, service: str, port: int = 8000) -> Iterator[str]:
        """The base URL of a Service, through kubectl port-forward."""
        process = subprocess.Popen(
            [kubectl_program(), "port-forward", "-n", self.namespace, f"service/{service}", f":{port}"],
            env=self.target.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "->" in line, f"kubectl port-forward: {line} {process.stderr.read() if process.stderr else ''}"
            yield f"http://127.0.0.1:{line.split('->')[0].rsplit(':', 1)[1].strip()}"
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def proxied(self, service: str, port: int = 8000) -> Iterator[str]:
        """The base URL of a Service, through kubectl proxy and the API server.

        It outlives the service's pods, which a port-forward does not: that holds on to one pod.
        """
        with served_api(self.target) as url:
            yield f"{url}/api/v1/namespaces/{self.namespace}/services/{service}:{port}/proxy"

    @contextmanager
    def reached(self, service: str) -> Iterator[str]:
        """The base URL of a service for clients with API keys, which the API server does not pass on to pods.

        The address of its Service where this machine has a route to it; elsewhere a port-forward to the head, which
        has a Serve proxy as well and stays when a worker goes.
        """
        if self.target.own:
            address = self.get("service", f"{service}-serve-svc")["spec"]["clusterIP"]
            yield f"http://{address}:8000"
        else:
            with self.forwarded(f"{service}-head-svc") as url:
                yield url

    def serve_answer(self, cluster: str) -> str:
        """What Serve on a RayCluster says of itself, as JSON, with the token that KubeRay made; or why it does not."""
        token = self.kubectl("get", "secret", cluster, "-n", self.namespace, "--ignore-not-found", "-o", "json")
        headers = {}
        if token:
            value = base64.b64decode(json.loads(token)["data"]["auth_token"]).decode()
            headers["x-ray-authorization"] = f"Bearer {value}"
        with self.proxied(f"{cluster}-head-svc", 8265) as url:
            request = urllib.request.Request(f"{url}/api/serve/applications/", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text: str = answer.read().decode()
            except OSError as error:
                return f"Serve on {cluster} did not answer: {error}"
        return text

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        # The next test needs the memory, so pods have a second to end. Who owns them would give them half a minute. The
        # namespace goes first: KubeRay could replace a pod until then, and a worker takes minutes for what it serves.
        self.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--wait=false")
        self.kubectl("delete", "pods", "--all", "-n", self.namespace, "--grace-period=1", "--wait=false")

    def dump(self, folder: Path) -> None:
        """Write down what the namespace holds: objects, events, Serve's answers, the containers' last lines."""
        folder.mkdir(parents=True, exist_ok=True)
        kinds = "rayservices,rayclusters,pods,services,endpointslices,events,jobs,persistentvolumeclaims"
        (folder / "objects.yaml").write_text(
            self.kubectl("get", kinds, "-n", self.namespace, "-o", "yaml", check=False)
        )
        (folder / "pods.txt").write_text(self.kubectl("describe", "pods", "-n", self.namespace, check=False))
        for cluster in self.items("rayclusters"):
            name = cluster["metadata"]["name"]
            (folder / f"serve-{name}.json").write_text(self.serve_answer(name))
        for pod in self.items("pods"):
            name = pod["metadata"]["name"]
            log = self.kubectl("logs", "-n", self.namespace, name, "--all-containers", "--tail=200", check=False)
            (folder / f"{name}.log").write_text(log)

    def summary(self) -> str:
        """What `status` says of the services, and kubectl of the pods: in the output of a run whose files are gone."""
        services = [one["metadata"]["name"] for one in self.items("rayservices")]
        said = [str(self.run("status", name, "-n", self.namespace, code=None)) for name in services]
        return "\n".join([*said, self.kubectl("get", "pods", "-n", self.namespace, "-o", "wide", check=False)])


@contextmanager
def served_api(target: Target) -> Iterator[str]:
    """The URL of the API server through kubectl proxy, which adds the kubeconfig's credentials."""
    process = subprocess.Popen(
        [kubectl_program(), "proxy", "--port=0"],
        env=target.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "Starting to serve on" in line, f"kubectl proxy: {line}"
        yield f"http://{line.split()[-1]}"
    finally:
        process.kill()
        process.wait()


class Watched:
    """What `rayllm-ctl watch -o json` says of a service while the block lasts.

    `running`: the numbers of running replicas in the order in which they were seen; `wanted`: the last number wanted.
    `notes`: what it said beside that, at the end.
    """

    def __init__(self, bench: Bench, name: str) -> None:
        self.running: list[int] = []
        self.wanted = 0
        self.notes = ""
        self._process = bench.start("watch", name, "-n", bench.namespace, "-o", "json")
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        end = time.monotonic() + 90
        while not self.running:
            assert time.monotonic() < end, "watch said nothing within 90 s"
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._thread.join(10)
        assert self._process.stderr is not None
        self.notes = self._process.stderr.read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            health = json.loads(line)
            self.wanted = health["replicasWanted"]
            if not self.running or self.running[-1] != health["replicasRunning"]:
                self.running.append(health["replicasRunning"])

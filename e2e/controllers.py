"""The controller installed with its chart, LLMServices, and what their status says."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import build, modules
from e2e.cluster.progress import to_stderr
from e2e.harness import Bench, Object
from e2e.images.oci import Image

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "rayllm-operator"
KINDS = "llmservices.rayllm.io,batchjobs.rayllm.io"
CRDS = ("llmservices.rayllm.io", "batchjobs.rayllm.io")
API_VERSION = "rayllm.io/v1alpha1"

CHILD_KINDS = (
    "rayservices,rayclusters,rayjobs,configmaps,services,secrets,poddisruptionbudgets,networkpolicies,"
    "controllerrevisions.apps,endpointslices,pods"
)
"""Kinds of what a service consists of, and of what KubeRay makes of it."""


@dataclass
class Release:
    """The chart, installed in a namespace of its own. `bench`: that namespace."""

    bench: Bench
    name: str = "rayllm"

    def install(self, image: Image, *settings: str) -> None:
        """Install or upgrade it, and wait until its pods are ready."""
        repository, _, tag = image.ref.rpartition(":")
        chosen = (f"image.repository={repository}", f"image.tag={tag}", *settings)
        flags = [flag for one in chosen for flag in ("--set", one)]
        self.helm("upgrade", "--install", self.name, str(CHART), *flags, "--wait", "--timeout", "180s")

    def helm(self, *args: str) -> str:
        """Helm's standard output."""
        helm = build.ensure(modules.HELM, to_stderr()) / "helm"
        argv = [str(helm), *args, "--namespace", self.bench.namespace]
        environment = self.bench.target.environment
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"helm {' '.join(args)}: {done.stderr}\n{self.log()}"
        return done.stdout

    def log(self) -> str:
        """The last lines of the controller."""
        selector = f"app.kubernetes.io/instance={self.name}"
        where = ("-n", self.bench.namespace, "-l", selector)
        described = self.bench.kubectl("describe", "pods", *where, check=False)
        return described[-4000:] + self.bench.kubectl("logs", *where, "--tail=100", "--prefix", check=False)


@contextmanager
def released(bench: Bench) -> Iterator[Release]:
    """A namespace for the chart, which enforces Pod Security "restricted". At the end the definitions go, too."""
    namespace = f"e2e-operator-{secrets.token_hex(2)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    bench.kubectl("create", "-f", "-", input_text=json.dumps(made))
    release = Release(Bench(bench.target, namespace))
    try:
        yield release
    finally:
        release.helm("uninstall", release.name, "--ignore-not-found", "--wait")
        # The chart keeps them: with them go all objects of the kinds.
        bench.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--timeout=100s")
        release.bench.close()


@dataclass
class Declared:
    """An LLMService or a BatchJob, by name."""

    bench: Bench
    name: str
    kind: str = "LLMService"

    def apply(self, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> int:
        """Write it as a user does; its generation."""
        metadata = {"name": self.name, "annotations": dict(annotations or {})}
        self.bench.apply({"apiVersion": API_VERSION, "kind": self.kind, "metadata": metadata, "spec": dict(spec)})
        generation: int = self.item["metadata"]["generation"]
        return generation

    @property
    def item(self) -> Object:
        return self.bench.get(f"{self.kind}.rayllm.io", self.name)

    @property
    def status(self) -> Object:
        found: Object = self.item.get("status") or {}
        return found

    def condition(self, type_: str) -> tuple[str, str]:
        """Status and reason; both empty where there is none, or where it is about an earlier spec."""
        item = self.item
        for one in (item.get("status") or {}).get("conditions") or ():
            if one["type"] == type_ and one["observedGeneration"] == item["metadata"]["generation"]:
                return one["status"], one["reason"]
        return "", ""

    def message(self, type_: str) -> str:
        return next(str(one["message"]) for one in self.status["conditions"] if one["type"] == type_)

    def wait(self, type_: str, status: str = "True", reason: str = "", timeout: float = 180) -> None:
        """Wait until a condition of the spec that is stored has this status, and reason."""

        def holds() -> bool:
            found = self.condition(type_)
            return found[0] == status and reason in ("", found[1])

        try:
            self.bench.wait(f"{self.kind} {self.name}: {type_}={status} {reason}", holds, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{yaml.safe_dump(self.status)}") from None

    def settled(self, timeout: float = 180) -> None:
        """Wait until it is Ready as its spec says, and nothing is on its way."""
        try:
            self.bench.wait(f"{self.kind} {self.name} is settled", self.is_settled, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{yaml.safe_dump(self.status)}") from None

    def is_settled(self) -> bool:
        """Whether it is Ready as its spec says, and nothing is on its way.

        The idle worker that a surge leaves may remain: on simulated nodes no autoscaler removes it.
        """
        wanted = {"Ready": "True", "Upgrading": "False", "Stalled": "False"}
        if any(self.condition(type_)[0] != status for type_, status in wanted.items()):
            return False
        return self.condition("Reconciling")[0] == "False" or "scaling down" in self.message("Ready")

    def children(self) -> dict[str, Object]:
        """What it owns, by kind and name, with the managers of its fields."""
        uid = self.item["metadata"]["uid"]
        kinds = "rayservices,rayclusters,rayjobs,configmaps,poddisruptionbudgets,networkpolicies"
        args = ("get", kinds, "-n", self.bench.namespace, "-o", "json", "--show-managed-fields")
        return {
            f"{item['kind']}/{item['metadata']['name']}": item
            for item in json.loads(self.bench.kubectl(*args))["items"]
            if any(one["uid"] == uid for one in item["metadata"].get("ownerReferences") or ())
        }

    def delete(self) -> None:
        self.bench.kubectl("delete", f"{self.kind}.rayllm.io", self.name, "-n", self.bench.namespace)

    def left(self) -> list[str]:
        """What bears its name still."""
        names = self.bench.kubectl("get", CHILD_KINDS, "-n", self.bench.namespace, "-o", "name").split()
        return [one for one in names if self.name in one.partition("/")[2]]


def tiny_spec(bench: Bench, name: str, *flags: str) -> Object:
    """The spec of the tiny model on CPU, as `init` writes it."""
    found: Object = yaml.safe_load(bench.run("init", *bench.tiny(name, *flags)[1:]).out)["spec"]
    found.pop("replicas", None)
    return found

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.cluster.api.follower import Change, as_followed
from rayllm_ctl.controller.caches import SUBSCRIPTIONS, ObjectCaches, unpack_object
from rayllm_ctl.controller.service import ServiceReconciler
from rayllm_ctl.controller.types import Key
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.specfile.crd.status import SERVICE_STATUS
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakehttp import kubeconfig, serving


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str = "status") -> list[str]:
    """The fields of a status that its schema does not have."""
    if isinstance(value, list):
        return [one for item in value for one in unknown_fields(item, schema["items"], f"{path}[]")]
    if not isinstance(value, Mapping):
        return []
    found = [f"{path}.{key}" for key in value if key not in schema["properties"]]
    known = [key for key in value if key in schema["properties"]]
    return found + [
        one for key in known for one in unknown_fields(value[key], schema["properties"][key], f"{path}.{key}")
    ]


MIRROR: dict[str, Any] = {
    "model": {"mirror": {"from": "hf", "to": {"claim": {"name": "models", "create": {"size": "20Gi"}}}}}
}
"""spec.storage: the model is downloaded into a claim."""


def provide_storage(api: FakeAPI) -> None:
    """A StorageClass whose volumes many nodes can mount, and that can grow."""
    api.put(kind="CSIDriver", metadata={"name": "nfs.csi.k8s.io"})
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "nfs", "annotations": default}
    api.put(kind="StorageClass", metadata=metadata, provisioner="nfs.csi.k8s.io", allowVolumeExpansion=True)


def complete_downloads(api: FakeAPI) -> None:
    """What the Job controller writes of Jobs whose pods have succeeded."""
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-11-21T09:05:00Z"}
    for item in [one for (kind, _, _), one in api._objects.items() if kind == "Job"]:
        api.put(**{**item, "status": {"conditions": [condition], "completionTime": "2026-11-21T09:05:00Z"}})


class Controlled:
    """An API server with KubeRay, and a controller whose caches are filled when a test says so: no watch, no thread."""

    def __init__(self, api: FakeAPI, cluster: Cluster) -> None:
        self.api = api
        self.cluster = cluster
        self.marked: list[Key] = []
        self.restart()

    def restart(self) -> None:
        """Another process: it knows nothing but what the cluster has."""
        self.caches = ObjectCaches(self.cluster, (), self.marked.append)
        self.reconciler = ServiceReconciler(self.cluster, self.caches, OFFLINE)

    def look(self) -> None:
        """What the watches would tell."""
        known = {item["metadata"]["uid"] for item in self.api._objects.values()}
        gone = [uid for uid in self.caches._places if uid not in known]
        for uid in gone:
            key, child = self.caches._places[uid]
            self.caches.take([Change("DELETED", unpack_object(self.caches._objects[key][child]))])
        for one in SUBSCRIPTIONS:
            listed = [item for (name, _, _), item in self.api._objects.items() if name == one.kind]
            self.caches.take(Change("ADDED", as_followed(copy.deepcopy(item), one)) for item in listed)

    def step(self, name: str = "tiny") -> float | None:
        self.look()
        return self.reconciler.reconcile(Key("LLMService", "llm", name))

    def put(self, name: str = "tiny", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        """Write an LLMService, as a user does: what is under its status stays."""
        old = self.api._objects.get(("LLMService", "llm", name), {})
        kept = {key: old[key] for key in ("status",) if key in old}
        metadata = {**old.get("metadata", {}), "name": name, "annotations": annotations or {}}
        model = {"model": {"id": "Qwen/Qwen3-0.6B"}, "accelerator": {"gpu": "L4"}}
        return self.api.put(kind="LLMService", metadata=metadata, spec=model | spec, **kept)

    def run(self, name: str = "tiny") -> None:
        """What KubeRay and Serve make of the RayService."""
        fakekuberay.reconcile(self.api, self.api.stored("RayService", name))

    def status(self, name: str = "tiny") -> dict[str, Any]:
        found: dict[str, Any] = self.api.stored("LLMService", name)["status"]
        assert unknown_fields(found, SERVICE_STATUS) == [], "the API server drops what the CRD does not have"
        return found

    def condition(self, type_: str, name: str = "tiny") -> tuple[str, str, str]:
        """Status, reason and message."""
        found = next(one for one in self.status(name)["conditions"] if one["type"] == type_)
        return found["status"], found["reason"], found["message"]

    def writes(self) -> list[str]:
        """The requests that write, since the last call."""
        sent = [one for one in self.api.requests if one.method != "GET" and "dryRun" not in one.query]
        self.api.requests.clear()
        return [f"{one.method} {one.path}" for one in sent if "selfsubject" not in one.path]


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with serving() as running:
        yield running


@pytest.fixture
def cluster(api: FakeAPI, tmp_path: Path) -> Cluster:
    """The fake API server, default namespace llm."""
    return connect(str(kubeconfig(tmp_path / "kubeconfig", api.url, token="s3cret-token")), request_timeout=5)


@pytest.fixture
def controlled(tmp_path: Path) -> Iterator[Controlled]:
    with controlled_in(tmp_path) as made:
        yield made


@contextmanager
def controlled_in(folder: Path) -> Iterator[Controlled]:
    """KubeRay, and a node with eight L4; the kubeconfig is in `folder`."""
    with serving() as api:
        fakekuberay.operator(api)
        node = api.stored("Node", "n1", "")
        allocatable = {**node["status"]["allocatable"], "nvidia.com/gpu": "8"}
        labels = {"nvidia.com/gpu.product": "NVIDIA-L4"}
        api.put(
            kind="Node",
            metadata={"name": "n1", "labels": labels},
            status={**node["status"], "allocatable": allocatable},
        )
        yield Controlled(api, connect(str(kubeconfig(folder / "kubeconfig", api.url)), request_timeout=5))

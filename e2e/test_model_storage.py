"""Models that are downloaded once: every way to the weights, and what goes wrong on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import gcs, hub, s3
from e2e.harness import ENDS_SOON, STAND_IN, Bench, Object, Result
from tests.catalog.hubserver import COMMIT, Hub

pytestmark = pytest.mark.xdist_group("model_storage")

S3_PORT = 7071
BUCKET = "weights"
FOLDER = f"{hub.MODEL}/main"


@dataclass(frozen=True)
class Rig:
    """A namespace with a hub that its pods reach, a claim `models` on the folder `shared`, a volume for a new one."""

    bench: Bench
    hub: Hub
    shared: Path
    folder: Path
    new_volume: str
    new: Path

    def spec(self, name: str, model: Object, *, engine: Object | None = None, **spec: Any) -> str:
        """A spec file of a service with the stand-in for an engine, which reads no weights."""
        env = {**ENDS_SOON, "HF_ENDPOINT": self.hub.address, "HF_HUB_OFFLINE": "0", **STAND_IN}
        document = {
            "apiVersion": "rayllm.io/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": name, "namespace": self.bench.namespace},
            "spec": {
                "model": {"id": hub.MODEL},
                "accelerator": {"kind": "cpu"},
                "engine": {"image": self.bench.target.image, "maxModelLen": 512, "env": env, **(engine or {})},
                "storage": {"model": model},
                **spec,
            },
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(document))
        return str(path)

    def deploy(self, file: str, *flags: str, code: int | None = 0) -> Result:
        return self.bench.run("deploy", "-f", file, *self.facts, *flags, timeout=580, code=code)

    @property
    def facts(self) -> tuple[str, ...]:
        """Flags with what the catalog does not know of the model."""
        return ("--model-config", str(self.folder / "model"))

    def new_claim(self, name: str) -> Object:
        create = {"size": "1Gi", "storageClass": self.new_volume, "accessModes": ["ReadWriteMany"]}
        return {"name": name, "create": create}

    def fetch(self, *flags: str, code: int | None = 0) -> Result:
        """Download the tiny model without a service."""
        env = ("--env", f"HF_ENDPOINT={self.hub.address}")
        common = ("-n", self.bench.namespace, "--image", self.bench.target.image, *env)
        return self.bench.run("fetch", hub.MODEL, *common, *flags, timeout=300, code=code)

    def pods(self, name: str) -> list[Object]:
        return self.bench.items("pods", f"rayllm.io/service={name},ray.io/is-ray-node=yes")


@pytest.fixture(scope="module")
def rig(host_address: str, shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("models")
    model = folder / "model"
    model.mkdir()
    for name, content in hub.tiny_files().items():
        (model / name).write_bytes(content)
    weights, new = folder / "shared", folder / "new"
    with (
        hub.serving(host_address) as served,
        hub.shared_volume(shared, "models", weights) as volume,
        hub.shared_volume(shared, "new", new) as new_volume,
    ):
        spec = {
            "accessModes": ["ReadWriteMany"], "storageClassName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        }  # fmt: skip
        shared.apply({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": spec,
        })  # fmt: skip
        yield Rig(shared, served, weights, folder, new_volume, new)


def test_two_replicas_on_two_nodes_load_what_was_downloaded_once(rig: Rig) -> None:
    """The files are sent once, both nodes see them, and the claim outlives the service."""
    before = rig.hub.sent
    mirror = {"mirror": {"from": "hf", "to": {"claim": rig.new_claim("new")}}}
    file = rig.spec("mirrored", mirror, replicas={"min": 2, "max": 2})
    said = rig.deploy(file)
    size = sum(map(len, hub.tiny_files().values()))
    assert rig.hub.sent - before == size
    assert hub.marker(rig.new / FOLDER)["commit"] == COMMIT
    workers = [pod for pod in rig.pods("mirrored") if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    assert {pod["spec"]["nodeName"] for pod in workers} == {"n1", "n2"}
    assert "ready" in said.err
    rig.bench.run("delete", "mirrored", "-n", rig.bench.namespace)
    assert rig.bench.get("pvc", "new")["status"]["phase"] == "Bound"
    assert hub.marker(rig.new / FOLDER)["bytes"] == size

    # The same folder again, with nothing left to download.
    again = rig.fetch("--to", "claim/new", "-o", "json")
    assert rig.hub.sent - before == size
    assert again.json()


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        pytest.param({"token": "of-somebody"}, "DownloadUnauthorized", id="401"),
        pytest.param({"files": {}}, "DownloadNotFound", id="404"),
        pytest.param({"mode": "gated"}, "DownloadUnauthorized", id="403"),
    ],
)
def test_a_download_that_cannot_succeed_ends_with_its_cause(
    rig: Rig, behaviour: dict[str, Any], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in behaviour.items():
        monkeypatch.setattr(rig.hub, name, value)
    failed = rig.fetch("--to", f"claim/models/{code.lower()}", "-o", "json", code=None)
    assert failed.code != 0
    assert code in failed.err + failed.out, str(failed)
    assert not (rig.shared / code.lower() / hub.MARKER).exists()


def test_a_file_that_arrives_damaged_is_named(rig: Rig) -> None:
    rig.hub.flipped["model.safetensors"] = 100
    try:
        failed = rig.fetch("--to", "claim/models/damaged", code=None)
    finally:
        rig.hub.flipped.clear()
    assert failed.code != 0
    assert "model.safetensors" in failed.err, str(failed)
    assert not (rig.shared / "damaged" / hub.MARKER).exists()


def test_a_claim_for_one_node_is_rejected_for_two(rig: Rig) -> None:
    claim = rig.new_claim("one-node")
    claim["create"]["accessModes"] = ["ReadWriteOnce"]
    mirror = {"mirror": {"from": "hf", "to": {"claim": claim}}}
    file = rig.spec("rwo", mirror, replicas={"min": 2, "max": 2})
    failed = rig.deploy(file, code=2)
    assert "accessModes" in failed.err
    assert not rig.bench.kubectl("get", "pvc", "one-node", "-n", rig.bench.namespace, check=False)


def test_a_claim_that_is_missing_is_named_before_anything_is_applied(rig: Rig) -> None:
    failed = rig.deploy(rig.spec("lost", {"claim": {"name": "nowhere", "path": "x"}}), code=None)
    assert failed.code != 0
    assert "nowhere" in failed.err
    assert not rig.bench.items("rayservices", "app.kubernetes.io/instance=lost")


@pytest.fixture(scope="module")
def buckets(rig: Rig, host_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3]:
    """An S3 server with a Secret for it."""
    with s3.serving(tmp_path_factory.mktemp("s3"), f"{host_address}:{S3_PORT}") as server:
        (server.folder / BUCKET).mkdir()
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        rig.bench.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": keys})
        yield server


def answers(rig: Rig, name: str, model: Object, **more: Any) -> str:
    """What vLLM says that loads the weights on this way."""
    env = {**ENDS_SOON, "HF_ENDPOINT": rig.hub.address, **more.pop("env", {})}
    engine = {"image": rig.bench.target.image, "maxModelLen": 512, "env": env, "args": {"enforce_eager": True}}
    rig.deploy(rig.spec(name, model, engine=engine, **more))
    said = rig.bench.run(
        "chat", name, "What is Ray?", "-n", rig.bench.namespace, "--max-tokens", "24", "--temperature", "0"
    )
    rig.bench.run("delete", name, "-n", rig.bench.namespace)
    return said.out


def store(server: s3.S3, **more: Any) -> Object:
    path = f"s3://{BUCKET}/tiny"
    return {"uri": path, "endpoint": server.endpoint, "region": "us-east-1", "secret": "s3", **more}


KNOWN = re.compile(r"distributed Python")
"""Of the answer that the tiny model knows by heart."""


@pytest.mark.slow
def test_vllm_answers_from_a_claim(rig: Rig) -> None:
    mirror = {"mirror": {"from": "hf", "to": {"claim": {"name": "models"}}}}
    assert KNOWN.search(answers(rig, "from-mirror", mirror))
    assert KNOWN.search(answers(rig, "from-claim", {"claim": {"name": "models", "path": FOLDER}}))


@pytest.mark.slow
def test_vllm_answers_from_a_cache_of_the_hub(rig: Rig) -> None:
    assert KNOWN.search(answers(rig, "from-cache", {"hub": {"cache": "models"}}, env={"HF_HUB_OFFLINE": "0"}))


@pytest.mark.slow
def test_vllm_answers_from_a_bucket_copied_and_streamed(rig: Rig, buckets: s3.S3) -> None:
    mirror = {"mirror": {"from": "hf", "to": {"objectStore": store(buckets)}}}
    assert KNOWN.search(answers(rig, "to-bucket", mirror))
    assert KNOWN.search(answers(rig, "copied", {"objectStore": store(buckets, load="copy")}))
    given = store(buckets)
    source = {"from": given.pop("uri"), **given, "to": {"claim": {"name": "models", "path": "from-bucket"}}}
    assert KNOWN.search(answers(rig, "from-bucket", {"mirror": source}))
    assert KNOWN.search(answers(rig, "streamed", {"objectStore": store(buckets, load="stream")}))


@pytest.mark.slow
def test_vllm_answers_from_google_cloud_storage(rig: Rig, host_address: str) -> None:
    with gcs.serving(host_address) as server:
        server.make_bucket(BUCKET)
        for name, content in hub.tiny_files().items():
            server.put(BUCKET, f"tiny/{name}", content)
        env = {gcs.EMULATOR: server.endpoint, "STORAGE_EMULATOR_HOST": server.endpoint}
        model = {"objectStore": {"uri": f"gs://{BUCKET}/tiny", "anonymous": True, "load": "copy"}}
        assert KNOWN.search(answers(rig, "from-google", model, env=env))


CROWD = 50


@pytest.mark.slow
def test_of_fifty_pods_at_once_one_downloads(rig: Rig) -> None:
    """The Job that `fetch` makes, with fifty pods in place of one."""
    before = rig.hub.sent
    [job] = [
        item
        for item in rig.fetch("--to", "claim/models/crowd", "--dry-run=client", "-o", "json").json()["items"]
        if item["kind"] == "Job"
    ]
    others = [
        item
        for item in rig.fetch("--to", "claim/models/crowd", "--dry-run=client", "-o", "json").json()["items"]
        if item["kind"] != "Job"
    ]
    # With so many at once the container runtime fails to start some; that is no failure of theirs.
    job["spec"] |= {"parallelism": CROWD, "completions": CROWD, "backoffLimit": CROWD}
    for container in job["spec"]["template"]["spec"]["containers"]:
        container["resources"]["requests"] = {"cpu": "10m", "memory": "64Mi"}
    rig.bench.apply(*others, job)

    def finished() -> bool:
        state = rig.bench.get("job", job["metadata"]["name"]).get("status", {})
        return bool(state.get("succeeded") == CROWD)

    rig.bench.wait("all pods have ended well", finished, timeout=900, pause=5)
    assert rig.hub.sent - before == sum(map(len, hub.tiny_files().values()))
    assert hub.marker(rig.shared / "crowd")["commit"] == COMMIT

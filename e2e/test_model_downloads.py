"""Downloads of models from and into buckets, with the program of the pods against servers of both kinds.

It needs no cluster.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from e2e import gcs, s3

pytestmark = [pytest.mark.xdist_group("gcs"), pytest.mark.slow]

ROOT = Path(__file__).parents[1]
SHARD_BYTES = 20_000_000
"""More than one part of a download (8 MiB) and of an upload (5 MiB)."""


def weights(size: int, seed: int) -> bytes:
    """A safetensors file with one tensor."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(size)


def model() -> dict[str, bytes]:
    return {
        "config.json": b'{"model_type": "llama"}',
        "1_Pooling/config.json": b"{}",
        "model-1.safetensors": weights(SHARD_BYTES, 1),
        "model-2.safetensors": weights(SHARD_BYTES, 2),
    }


@dataclass(frozen=True)
class StoreAccess:
    """A server, as settings name it."""

    scheme: str
    settings: Mapping[str, Any]
    environment: Mapping[str, str]
    folder: Path | None
    server: gcs.GCS | None

    def get(self, name: str) -> bytes:
        if self.folder is not None:
            return (self.folder / "models" / name).read_bytes()
        assert self.server is not None
        return self.server.get("models", name)

    def put(self, name: str, found: bytes) -> None:
        """Put an object there, in one request."""
        if self.server is not None:
            quoted = urllib.parse.quote(name, safe="")
            self.server._ask("POST", f"upload/storage/v1/b/models/o?uploadType=media&name={quoted}", found)
            return
        files = fs.S3FileSystem(
            access_key=self.environment["SOURCE_AWS_ACCESS_KEY_ID"],
            secret_key=self.environment["SOURCE_AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.settings["endpoint"], region="us-east-1", allow_delayed_open=True,
        )  # fmt: skip
        with files.open_output_stream(f"models/{name}", compression=None) as stream:
            stream.write(found)

    def damage(self, name: str) -> None:
        """Put an object of equal length and another last byte in the place of one."""
        found = self.get(name)
        wrong = found[:-1] + bytes((found[-1] ^ 1,))
        if self.folder is not None:
            (self.folder / "models" / name).write_bytes(wrong)
        else:
            self.put(name, wrong)


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreAccess]:
    if request.param == "s3":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        folder = tmp_path / "s3"
        folder.mkdir()
        with s3.serving(folder, address) as made:
            (made.folder / "models").mkdir()
            keys = {
                f"{role}_{name}": value
                for role in ("SOURCE", "TARGET")
                for name, value in (("AWS_ACCESS_KEY_ID", made.access_key), ("AWS_SECRET_ACCESS_KEY", made.secret_key))
            }
            yield StoreAccess("s3", {"endpoint": made.endpoint, "region": "us-east-1"}, keys, made.folder, None)
    else:
        with gcs.serving() as server:
            server.make_bucket("models")
            key = tmp_path / "key.json"
            gcs.write_key(key)
            environment = {gcs.EMULATOR: server.endpoint}
            yield StoreAccess("gs", {"anonymous": True}, environment, None, server)


def run(tmp_path: Path, store: StoreAccess, source: str, target: str, *flags: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the last event and the remarks of a download."""
    settings = tmp_path / "settings.json"
    data = {"source": source, "target": target, "revision": None}
    settings.write_text(json.dumps({**data, "source_store": store.settings, "target_store": store.settings}))
    command = [sys.executable, "-m", "rayllm_ctl.serving.storage", "download", "--settings", str(settings), *flags]
    environment = {**os.environ, "no_proxy": "127.0.0.1", **store.environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("rayllm-model ")]
    return done.returncode, json.loads(lines[-1].partition(" ")[2]), done.stderr


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """A web server with the model, which has no ranges."""
    folder = tmp_path / "www"
    for name, found in model().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(found)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_a_model_goes_into_a_bucket_and_out_again(tmp_path: Path, store: StoreAccess, origin: str) -> None:
    bucket = f"{store.scheme}://models/acme/small"
    code, done, err = run(tmp_path, store, origin, bucket)
    assert (code, done["event"]) == (0, "done"), (done, err)
    for name, found in model().items():
        assert store.get(f"acme/small/{name}") == found
    code, done, err = run(tmp_path, store, origin, bucket)
    assert (code, done["fetched"]) == (0, 0), err

    folder = tmp_path / "models"
    code, done, err = run(tmp_path, store, bucket, str(folder))
    assert code == 0, (done, err)
    marker = json.loads((folder / ".rayllm-complete").read_text())
    for name, found in model().items():
        assert (folder / name).read_bytes() == found
        assert marker["files"][name]["sha256"] == hashlib.sha256(found).hexdigest()
        assert marker["files"][name]["verified"] == "sha256"

    store.damage("acme/small/model-2.safetensors")
    code, failed, err = run(tmp_path, store, bucket, str(tmp_path / "other"))
    assert (code, failed["code"]) == (10, "DownloadCorrupt"), (failed, err)
    assert failed["message"].startswith("model-2.safetensors is corrupted")
    code, done, err = run(tmp_path, store, origin, bucket, "--verify")
    assert code == 0, (done, err)
    assert store.get("acme/small/model-2.safetensors") == model()["model-2.safetensors"]


def test_the_checksums_of_the_bucket_are_compared(tmp_path: Path, store: StoreAccess) -> None:
    """Objects that were put there by others, each in one request."""
    contents = {"config.json": b"{}", "model.safetensors": weights(100_000, 1)}
    for name, found in contents.items():
        store.put(f"acme/{name}", found)
    code, done, err = run(tmp_path, store, f"{store.scheme}://models/acme", str(tmp_path / "models"))
    assert code == 0, (done, err)
    marker = json.loads((tmp_path / "models/.rayllm-complete").read_text())
    assert {entry["verified"] for entry in marker["files"].values()} == {"md5"}
    if store.folder is None:
        return  # This server computes checksums of what is put there.
    store.damage("acme/model.safetensors")
    code, failed, err = run(tmp_path, store, f"{store.scheme}://models/acme", str(tmp_path / "other"))
    assert (code, failed["code"]) == (10, "DownloadCorrupt"), (failed, err)
    assert "acme/model.safetensors is corrupted" in failed["message"]


def test_a_bucket_that_does_not_exist(tmp_path: Path, store: StoreAccess) -> None:
    code, failed, err = run(tmp_path, store, f"{store.scheme}://nothing/x", str(tmp_path / "models"))
    assert (code, failed["code"]) == (10, "DownloadNotFound"), (failed, err)


def test_wrong_keys_are_refused(tmp_path: Path, store: StoreAccess) -> None:
    if store.scheme == "gs":
        pytest.skip("this server checks no keys")
    wrong = StoreAccess(
        "s3", store.settings, {**store.environment, "SOURCE_AWS_SECRET_ACCESS_KEY": "wrong"}, None, None
    )
    code, failed, err = run(tmp_path, wrong, "s3://models/acme", str(tmp_path / "models"))
    assert (code, failed["code"]) == (10, "DownloadUnauthorized"), (failed, err)
    assert "wrong" not in json.dumps(failed)

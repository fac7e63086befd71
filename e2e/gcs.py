"""A server of the API of Google Cloud Storage on this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import build, modules
from e2e.cluster.progress import to_stderr
from e2e.servers import running

EMULATOR = "CLOUD_STORAGE_EMULATOR_ENDPOINT"
"""The variable that names the server to Google's library."""


@dataclass(frozen=True)
class GCS:
    """A running server."""

    endpoint: str

    def make_bucket(self, name: str) -> None:
        self._ask("POST", "storage/v1/b?project=rayllm", json.dumps({"name": name}).encode())

    def put(self, bucket: str, name: str, content: str | bytes) -> None:
        """Make an object, or put another one in its place."""
        data = content.encode() if isinstance(content, str) else content
        self._ask("POST", f"upload/storage/v1/b/{bucket}/o?uploadType=media&name={_quoted(name)}", data)

    def get(self, bucket: str, name: str) -> bytes:
        """The content of an object."""
        return self._ask("GET", f"storage/v1/b/{bucket}/o/{_quoted(name)}?alt=media")

    def names(self, bucket: str, prefix: str) -> list[str]:
        """The names of the objects that start with `prefix`."""
        found = json.loads(self._ask("GET", f"storage/v1/b/{bucket}/o?prefix={_quoted(prefix)}"))
        return sorted(item["name"] for item in found.get("items", ()))

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.endpoint}/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())


@contextmanager
def serving(address: str = "127.0.0.1") -> Iterator[GCS]:
    """The server, until the block ends; it keeps everything in memory."""
    build.ensure(modules.FAKE_GCS_SERVER, to_stderr())
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    server = GCS(f"http://{address}:{port}")
    command: list[str | Path] = [
        build.program(modules.FAKE_GCS_SERVER, "fake-gcs-server"), "-scheme", "http", "-host", address,
        "-port", str(port), "-backend", "memory", "-log-level", "error",
    ]  # fmt: skip
    with running(command, f"{server.endpoint}/storage/v1/b"):
        yield server


def write_key(file: Path) -> None:
    """A service account's key, as a user mounts it. The library signs requests with it; this server checks none."""
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], capture_output=True, text=True, check=True)
    account = "batch@rayllm.iam.gserviceaccount.com"
    key = {
        "type": "service_account", "project_id": "rayllm", "private_key_id": "1", "private_key": made.stdout,
        "client_email": account, "client_id": "1", "token_uri": "https://oauth2.googleapis.com/token",
    }  # fmt: skip
    file.write_text(json.dumps(key))


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")

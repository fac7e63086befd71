"""An S3 server over a folder of this machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import build, modules
from e2e.cluster.progress import to_stderr
from e2e.servers import running

PORT = 7070


@dataclass(frozen=True)
class S3:
    """A running server. Its buckets are the folders in `folder`, its objects their files."""

    folder: Path
    access_key: str
    secret_key: str
    endpoint: str


@contextmanager
def serving(folder: Path, address: str) -> Iterator[S3]:
    """The server at `address` (host and port), until the block ends; it keeps everything in `folder`."""
    build.ensure(modules.VERSITYGW, to_stderr())
    # Metadata in files: not every file system of a test machine has extended attributes.
    objects, metadata = folder / "objects", folder / "metadata"
    for part in (objects, metadata):
        part.mkdir()
    server = S3(objects, "e2e", secrets.token_hex(16), f"http://{address}")
    program = build.program(modules.VERSITYGW, "versitygw")
    command: list[str | Path] = [
        program,
        "--port",
        address,
        "--quiet",
        "posix",
        "--sidecar",
        str(metadata),
        str(objects),
    ]
    credentials = {"ROOT_ACCESS_KEY": server.access_key, "ROOT_SECRET_KEY": server.secret_key}
    with running(command, server.endpoint, {**os.environ, **credentials}):
        yield server

"""One change of the cluster at a time on this machine, whatever cache directory it uses."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Final

from e2e.cluster.errors import RigError

# An abstract socket: bound by one process at a time, released with its holder, and no file to leave behind.
_NAME: Final = "\0rayllm-ctl-e2e-cluster"


@contextlib.contextmanager
def exclusive(action: str) -> Iterator[None]:
    """Hold the lock for the block; RigError at once if another process has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.bind(_NAME)
        except OSError:
            raise RigError(
                f"`{action}` is refused: process {_holder()} is changing the cluster right now",
                "wait for it to end, then try again",
            ) from None
        server.listen()
        yield


def _holder() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(_NAME)
        except OSError:
            return "(just ended)"
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return str(struct.unpack("3i", credentials)[0])

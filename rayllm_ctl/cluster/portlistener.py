"""A port of this machine whose connections end at a pod behind a Service, as `kubectl port-forward` has it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.direct import ready_pod
from rayllm_ctl.cluster.portforward import forwarded
from rayllm_ctl.errors import UserError

_PIECE = 65536


@contextmanager
def listening(cluster: Cluster, namespace: str, service: str) -> Iterator[int]:
    """A port on loopback, while the block runs. Each connection goes to a pod that is ready when it is made.

    Raises UserError if the Service has no ready pod now; later a connection to none is closed.
    """
    ready_pod(cluster, namespace, service)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        accepting = threading.Thread(target=_accept, args=(server, cluster, namespace, service), daemon=True)
        accepting.start()
        yield server.getsockname()[1]


def _accept(server: socket.socket, cluster: Cluster, namespace: str, service: str) -> None:
    with suppress(OSError):  # the end of the block closes it
        while True:
            near, _ = server.accept()
            threading.Thread(target=_connect, args=(near, cluster, namespace, service), daemon=True).start()


def _connect(near: socket.socket, cluster: Cluster, namespace: str, service: str) -> None:
    with near, suppress(UserError, OSError):
        pod, port = ready_pod(cluster, namespace, service)
        with forwarded(cluster, pod, namespace, port) as far:
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

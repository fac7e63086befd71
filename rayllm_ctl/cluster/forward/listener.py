"""A local port whose connections are forwarded to the pods behind a Service.

`kubectl port-forward` chooses one pod and ends with it. Here a pod is chosen for each connection, when its first bytes
arrive: HTTP clients send first. So forwarding continues while pods are replaced.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.port_forward import forwarded
from rayllm_ctl.cluster.forward.direct import ready_pods
from rayllm_ctl.cluster.forward.local_port import unusable_port
from rayllm_ctl.errors import UserError

_PIECE = 65536

_LINGER = 5.0
"""Seconds for a client that still sends to finish. If its connection were closed with unread data, it would lose the
part of the answer that it has not read yet."""

Report = Callable[[str], None]


@contextmanager
def listen_on_loopback(
    cluster: Cluster, namespace: str, service: str, port: int = 0, report: Report = lambda _: None
) -> Iterator[int]:
    """A port on loopback, while the block runs; 0: any that is free. Each connection goes to one of the pods that are
    ready at that time, in turn. While there is none, requests are answered with 503.

    report: called with a line when requests can no longer be forwarded, and when they can again. Raises UserError if
    the Service has no ready pod now or ports cannot be forwarded, UsageError if the port is in use.
    """
    connections = _Connections(cluster, namespace, service, report)
    with connections.to_a_pod():
        pass  # raises errors now instead of at the first client
    try:
        server = socket.create_server(("127.0.0.1", port), backlog=512)
    except OSError as error:
        raise unusable_port(port, error) from error
    with server:
        threading.Thread(target=connections.accept, args=(server,), daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # closing alone would not wake the thread before the next client


class _Connections:
    """Connections from a local port to the pods of one Service."""

    def __init__(self, cluster: Cluster, namespace: str, service: str, report: Report) -> None:
        self._cluster, self._namespace, self._service, self._report = cluster, namespace, service, report
        self._turns = count()
        self._failing = False
        self._lock = threading.Lock()

    def to_a_pod(self) -> AbstractContextManager[socket.socket]:
        """A connection to a pod that is ready now. Raises UserError."""
        pods = ready_pods(self._cluster, self._namespace, self._service)
        pod, port = pods[next(self._turns) % len(pods)]
        return forwarded(self._cluster, pod, self._namespace, port)

    def accept(self, server: socket.socket) -> None:
        """Serve connections until `server` is closed."""
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            with suppress(OSError):
                self._exchange(near)
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)  # ends a thread that may still read it

    def _exchange(self, near: socket.socket) -> None:
        first = near.recv(_PIECE)
        if not first:
            return
        answered = False
        try:
            with self.to_a_pod() as far:
                threading.Thread(target=_copy, args=(first, near, far), daemon=True).start()
                for piece in _pieces(far):
                    answered = answered or self._works()
                    near.sendall(piece)
        except UserError as error:
            if not answered:
                self._fails(error)
                near.sendall(_unavailable(error.message))
        near.shutdown(socket.SHUT_WR)
        _drain(near)

    def _works(self) -> bool:
        with self._lock:
            if self._failing:
                self._failing = False
                self._report(f"service {self._namespace}/{self._service} answers again")
        return True

    def _fails(self, error: UserError) -> None:
        with self._lock:
            if not self._failing:
                self._failing = True
                self._report(f"{error.message}; requests are answered with 503")


def _pieces(source: socket.socket) -> Iterator[bytes]:
    """Data until the connection ends or breaks."""
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            yield piece


def _copy(first: bytes, near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        far.sendall(first)
        for piece in _pieces(near):
            far.sendall(piece)
        far.shutdown(socket.SHUT_WR)


def _unavailable(message: str) -> bytes:
    """A response in the form of the OpenAI API's errors."""
    error = {"message": message, "type": "server_error", "param": None, "code": "service_unavailable"}
    body = json.dumps({"error": error}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _drain(near: socket.socket) -> None:
    end = time.monotonic() + _LINGER
    with suppress(OSError):
        while (left := end - time.monotonic()) > 0:
            near.settimeout(left)
            if not near.recv(_PIECE):
                return

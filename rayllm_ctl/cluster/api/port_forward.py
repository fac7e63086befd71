"""A connection to a port of a pod through the API server, like `kubectl port-forward`.

The API server's proxy for Services uses the Authorization header itself and does not forward it (Kubernetes 1.36,
apiserver/pkg/endpoints/filters/authentication.go), so requests with an API key need a forwarded port. The protocol is
WebSocket with the kubelet's channels (kubelet/pkg/cri/streaming/portforward/websocket.go): channel 0 is the data of the
port, channel 1 is the error; the first message of each is the port's number.

`stream.portforward` of the official client (37.0.2) is not used. It sends only the Authorization header, so the
impersonation of the kubeconfig is lost; it drops received data when the other end closes; it waits with select(), which
does not support descriptors above 1023, and without a time limit for the upgrade; it does not support TLS to a proxy;
and it needs CoreV1Api, whose import takes half a second.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from rayllm_ctl import __version__
from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import unreachable
from rayllm_ctl.cluster.api.websocket import WebSocket
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.kube.api_kinds import kind

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_OPEN_TIMEOUT = 30.0
"""Seconds for the answer to a request to forward. The API server waits for the pod's kubelet, which may be busy."""


@contextmanager
def forwarded(cluster: Cluster, pod: str, namespace: str, port: int) -> Iterator[socket.socket]:
    """A socket connected to `port` of the pod. Raises UserError; the stream ends when the pod closes the connection."""
    path = f"{kind('Pod').path(namespace, pod, 'portforward')}?ports={port}"
    with ExitStack() as stack:
        upgraded = _upgrade(stack, cluster, path, f"forward port {port} of Pod {namespace}/{pod}")
        channels = _Channels()
        near, far = socket.socketpair()
        with near, far:
            thread = threading.Thread(target=_carry, args=(upgraded, channels, far), daemon=True)
            thread.start()
            try:
                yield near
                if channels.problem:
                    raise UserError(
                        f"port {port} of Pod {namespace}/{pod} cannot be reached: {channels.problem}",
                        hint=f"kubectl get pod {pod} -n {namespace}",
                    )
            finally:
                upgraded.end()
                near.close()
                thread.join(timeout=5)


def _carry(upgraded: WebSocket, channels: _Channels, far: socket.socket) -> None:
    upgraded.carry(far, channels.packed, channels.unpacked)
    with suppress(OSError):
        far.shutdown(socket.SHUT_RDWR)


class _Channels:
    """The kubelet's channels in the messages of a WebSocket. `problem`: the kubelet's error, if any."""

    def __init__(self) -> None:
        self.problem = ""
        self._begun: set[int] = set()

    def packed(self, data: bytes) -> bytes:
        return bytes([_DATA]) + data

    def unpacked(self, message: bytes) -> bytes | None:
        """The data of the port in a message; None after an error, which is in `problem`."""
        if not message:
            return b""
        channel, content = message[0], message[1:]
        if channel not in self._begun:  # the port's number, in two bytes
            self._begun.add(channel)
            content = content[2:]
        if channel == _ERROR and content:
            self.problem = content.decode("utf-8", "replace").strip()[:500]
            return None
        return content if channel == _DATA else b""


def _upgrade(stack: ExitStack, cluster: Cluster, path: str, doing: str) -> WebSocket:
    """The WebSocket at `path` of the API server, until `stack` ends. Raises UserError for any other response."""
    import urllib3
    from websockets.exceptions import InvalidStatus, WebSocketException

    server = urlsplit(cluster.server)
    try:
        connection = cluster.connection()
    except (urllib3.exceptions.HTTPError, OSError, EOFError) as error:
        raise unreachable(error, cluster.server, cluster.context) from error
    stack.callback(connection.close)
    # The connection handles TLS and proxies.
    uri = f"ws://{server.netloc}{server.path.rstrip('/')}{path}"
    upgraded = WebSocket(connection.sock, uri, _PROTOCOL)
    try:
        upgraded.open([*cluster.headers(), ("User-Agent", f"rayllm-ctl/{__version__}")], _OPEN_TIMEOUT)
    except InvalidStatus as error:
        raise cluster.failure(error.response.status_code, bytes(error.response.body or b""), doing) from error
    except WebSocketException as error:
        raise ClusterError(f"the API server does not forward ports by WebSocket ({doing}): {error}") from error
    except TimeoutError as error:
        raise ClusterError(
            f"the API server did not {doing} within {_OPEN_TIMEOUT:.0f} s: the pod's node does not answer, or is busy",
            hint="kubectl get nodes",
        ) from error
    except (OSError, EOFError) as error:
        raise unreachable(error, cluster.server, cluster.context) from error
    if upgraded.subprotocol != _PROTOCOL:
        raise ClusterError(f"the API server does not support the {_PROTOCOL} protocol ({doing})")
    return upgraded

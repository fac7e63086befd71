"""A connection to a port of a pod through the API server, as `kubectl port-forward` has it.

The API server's proxy for Services takes the Authorization header for itself and does not pass it on (Kubernetes 1.36,
apiserver/pkg/endpoints/filters/authentication.go), so what a service is to see in it needs this way. The protocol is
WebSocket with the kubelet's channels (kubelet/pkg/cri/streaming/portforward/websocket.go): channel 0 is the data of the
port, channel 1 says why there is none; the first message of each is the port's number.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rayllm_ctl import __version__
from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.failures import unreachable
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.apikinds import kind

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PIECE = 32 * 1024
_LONGEST_MESSAGE = 16 * 1024 * 1024
_OPEN_TIMEOUT = 30.0
"""Seconds for the answer to a request to forward. The API server waits for the pod's kubelet, which may be busy."""

_CLOSE_TIMEOUT = 1.0
"""Seconds for the API server to agree to an end; after that the connection is closed without."""


@contextmanager
def forwarded(cluster: Cluster, pod: str, namespace: str, port: int) -> Iterator[socket.socket]:
    """A socket whose other end is `port` of the pod. Raises UserError; what the pod closes ends the stream."""
    path = f"{kind('Pod').path(namespace, pod, 'portforward')}?ports={port}"
    with ExitStack() as stack:
        upgraded = _upgrade(stack, cluster, path, f"forward port {port} of Pod {namespace}/{pod}")
        near, far = socket.socketpair()
        stream = _Stream(upgraded, far)
        threads = [threading.Thread(target=work, daemon=True) for work in (stream.send_all, stream.receive_all)]
        try:
            for thread in threads:
                thread.start()
            yield near
            if stream.problem:
                raise UserError(
                    f"port {port} of Pod {namespace}/{pod} cannot be reached: {stream.problem}",
                    hint=f"kubectl get pod {pod} -n {namespace}",
                )
        finally:
            near.close()
            upgraded.close()
            for thread in threads:
                thread.join(timeout=5)
            far.close()


class _Stream:
    """Copies between a local socket and a WebSocket. `problem`: what the kubelet said, if anything."""

    def __init__(self, upgraded: ClientConnection, local: socket.socket) -> None:
        self._upgraded, self._local = upgraded, local
        self.problem = ""

    def send_all(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(OSError, ConnectionClosed):
            while piece := self._local.recv(_PIECE):
                self._upgraded.send(bytes([_DATA]) + piece)

    def receive_all(self) -> None:
        from websockets.exceptions import ConnectionClosed

        begun: set[int] = set()
        with suppress(OSError, ConnectionClosed):
            for message in self._upgraded:
                if isinstance(message, str) or not message:
                    continue
                channel, content = message[0], message[1:]
                if channel not in begun:  # the port's number, in two bytes
                    begun.add(channel)
                    content = content[2:]
                if channel == _ERROR and content:
                    self.problem = content.decode("utf-8", "replace").strip()[:500]
                    break
                if channel == _DATA and content:
                    self._local.sendall(content)
        with suppress(OSError):
            self._local.shutdown(socket.SHUT_RDWR)


def _upgrade(stack: ExitStack, cluster: Cluster, path: str, doing: str) -> ClientConnection:
    """The WebSocket at `path` of the API server, until `stack` ends. Raises UserError where it answers with anything
    else.
    """
    import urllib3
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    server = urlsplit(cluster.server)
    try:
        connection = cluster.connection()
    except (urllib3.exceptions.HTTPError, OSError, EOFError) as error:
        raise unreachable(error, cluster.server, cluster.context) from error
    stack.callback(connection.close)
    try:
        opening = connect(
            # TLS, where there is any, and a proxy are matters of the connection.
            f"ws://{server.netloc}{server.path.rstrip('/')}{path}",
            sock=connection.sock,
            subprotocols=[Subprotocol(_PROTOCOL)],
            additional_headers=list(cluster.headers()),
            user_agent_header=f"rayllm-ctl/{__version__}",
            compression=None,
            proxy=None,
            ping_interval=None,
            open_timeout=_OPEN_TIMEOUT,
            close_timeout=_CLOSE_TIMEOUT,
            max_size=_LONGEST_MESSAGE,
        )
        upgraded = stack.enter_context(opening)
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
        raise ClusterError(f"the API server does not forward ports in the way of {_PROTOCOL} ({doing})")
    return upgraded

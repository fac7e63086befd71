"""A WebSocket that carries much, both ways at once, at the pace of the slower end."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from rayllm_ctl.cluster.api.websocket import WebSocket

MUCH = bytes(range(256)) * 16_384  # 4 MiB


def echo(server: socket.socket) -> None:
    """Answer every message with the same one, in two frames, and read nothing meanwhile."""
    protocol = ServerProtocol(subprotocols=["v4.channel.k8s.io"])  # type: ignore[list-item]
    with server, suppress(OSError):
        while data := server.recv(65536):
            protocol.receive_data(data)
            for event in protocol.events_received():
                if not isinstance(event, Frame):
                    protocol.send_response(protocol.accept(event))  # type: ignore[arg-type]
                elif event.opcode is Opcode.BINARY:
                    half = len(event.data) // 2
                    protocol.send_binary(event.data[:half], fin=False)
                    protocol.send_ping(b"still there")
                    protocol.send_continuation(event.data[half:], fin=True)
            for piece in protocol.data_to_send():
                server.sendall(piece)


class Wrapped:
    """A connection that is not a socket, as TLS within TLS: what it cannot send at once is lost."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner

    def send(self, data: bytes) -> int:
        assert self._inner.gettimeout() is None, "has to wait"
        self._inner.sendall(data)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def marked(data: bytes) -> bytes:
    return b"#" + data


def unmarked(message: bytes) -> bytes:
    assert message[:1] == b"#", "not the beginning of a message"
    return message[1:]


@pytest.mark.parametrize(
    # One that has to wait cannot read meanwhile: what is in flight has to fit into its buffers.
    ("wrap", "sent"),
    [(lambda client: client, MUCH), (Wrapped, MUCH[:65_536])],
    ids=["socket", "wrapped"],
)
def test_both_ways_at_once_and_a_slow_reader(wrap: Callable[[socket.socket], Any], sent: bytes) -> None:
    client, server = socket.socketpair()
    threading.Thread(target=echo, args=(server,), daemon=True).start()
    upgraded = WebSocket(wrap(client), "ws://localhost/port", "v4.channel.k8s.io")
    upgraded.open([("Authorization", "Bearer t")], 5)
    assert upgraded.subprotocol == "v4.channel.k8s.io"
    near, far = socket.socketpair()
    carrying = threading.Thread(target=upgraded.carry, args=(far, marked, unmarked), daemon=True)
    carrying.start()
    sending = threading.Thread(target=near.sendall, args=(sent,), daemon=True)
    sending.start()
    sending.join(timeout=0.3)  # nobody reads the answers yet
    found = bytearray()
    near.settimeout(20)
    while len(found) < len(sent):
        found += near.recv(65536)
    assert hashlib.sha256(found).digest() == hashlib.sha256(sent).digest()
    near.shutdown(socket.SHUT_WR)  # what still comes is still taken
    carrying.join(timeout=0.5)
    assert carrying.is_alive()
    upgraded.end()
    near.close()
    carrying.join(timeout=10)
    assert not carrying.is_alive()
    client.close()


def test_what_the_caller_does_not_want_ends_it() -> None:
    client, server = socket.socketpair()
    threading.Thread(target=echo, args=(server,), daemon=True).start()
    upgraded = WebSocket(client, "ws://localhost/port", "v4.channel.k8s.io")
    upgraded.open([], 5)
    near, far = socket.socketpair()
    carrying = threading.Thread(target=upgraded.carry, args=(far, bytes, lambda _: None), daemon=True)
    carrying.start()
    near.sendall(b"one message, after which nothing is wanted")
    carrying.join(timeout=10)
    assert not carrying.is_alive()
    near.close()
    client.close()


@pytest.mark.parametrize("last", [b"\xff\xff no frame", b""], ids=["nonsense", "nothing"])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_other_end_goes_away(last: bytes) -> None:
    client, server = socket.socketpair()
    upgraded = WebSocket(client, "ws://localhost/port", "v4.channel.k8s.io")

    def accept_and_go() -> None:
        protocol = ServerProtocol(subprotocols=["v4.channel.k8s.io"])  # type: ignore[list-item]
        protocol.receive_data(server.recv(65536))
        [request] = protocol.events_received()
        protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]
        protocol.send_binary(b"#the last words")
        for piece in protocol.data_to_send():
            server.sendall(piece)
        server.sendall(last)
        server.recv(1)
        server.close()

    threading.Thread(target=accept_and_go, daemon=True).start()
    upgraded.open([], 5)
    near, far = socket.socketpair()
    carrying = threading.Thread(target=upgraded.carry, args=(far, marked, unmarked), daemon=True)
    carrying.start()
    near.settimeout(10)
    assert near.recv(100) == b"the last words"
    near.sendall(b"is anybody there")
    carrying.join(timeout=10)
    assert not carrying.is_alive()
    near.close()
    client.close()

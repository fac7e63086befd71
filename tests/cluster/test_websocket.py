"""A WebSocket that carries much, both ways at once, at the pace of the slower end."""

from __future__ import annotations

import hashlib
import socket
import threading
from contextlib import suppress

from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from rayllm_ctl.cluster.websocket import WebSocket

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


def marked(data: bytes) -> bytes:
    return b"#" + data


def unmarked(message: bytes) -> bytes:
    assert message[:1] == b"#", "not the beginning of a message"
    return message[1:]


def test_both_ways_at_once_and_a_slow_reader() -> None:
    client, server = socket.socketpair()
    threading.Thread(target=echo, args=(server,), daemon=True).start()
    upgraded = WebSocket(client, "ws://localhost/port", "v4.channel.k8s.io", "test")
    upgraded.open([("Authorization", "Bearer t")], 5)
    assert upgraded.subprotocol == "v4.channel.k8s.io"
    near, far = socket.socketpair()
    carrying = threading.Thread(target=upgraded.carry, args=(far, marked, unmarked), daemon=True)
    carrying.start()
    sending = threading.Thread(target=near.sendall, args=(MUCH,), daemon=True)
    sending.start()
    sending.join(timeout=0.3)  # nobody reads the answers yet
    found = bytearray()
    near.settimeout(20)
    while len(found) < len(MUCH):
        found += near.recv(65536)
    assert hashlib.sha256(found).digest() == hashlib.sha256(MUCH).digest()
    near.shutdown(socket.SHUT_WR)  # what still comes is still taken
    carrying.join(timeout=0.5)
    assert carrying.is_alive()
    upgraded.end()
    near.close()
    carrying.join(timeout=10)
    assert not carrying.is_alive()
    client.close()


def test_the_other_end_closes() -> None:
    client, server = socket.socketpair()
    threading.Thread(target=echo, args=(server,), daemon=True).start()
    upgraded = WebSocket(client, "ws://localhost/port", "v4.channel.k8s.io", "test")
    upgraded.open([], 5)
    near, far = socket.socketpair()
    carrying = threading.Thread(target=upgraded.carry, args=(far, bytes, lambda _: None), daemon=True)
    carrying.start()
    near.sendall(b"one message, after which nothing is wanted")
    carrying.join(timeout=10)
    assert not carrying.is_alive()
    near.close()
    client.close()

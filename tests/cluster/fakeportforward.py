"""The kubelet's side of a forwarded port: a WebSocket in the fake API server, and a web server behind it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from websockets.utils import accept_key

from tests.cluster.fakeapi import Request

Serve = Callable[[socket.socket], None]
"""What runs in the pod: it gets the connection to its port."""


def port(serve: Serve, problem: str = "") -> Callable[[Request], tuple[int, Callable[[socket.socket], None]]]:
    """The API server's answer to a request for a port: an upgrade. problem: what the kubelet says instead."""

    def answer(request: Request) -> tuple[int, Callable[[socket.socket], None]]:
        return 101, partial(_upgrade, key=request.headers["Sec-WebSocket-Key"], serve=serve, problem=problem)

    return answer


def _upgrade(connection: socket.socket, key: str, serve: Serve, problem: str) -> None:
    """Answer an upgrade and copy between the frames and `serve`."""
    head = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
    ).encode()
    number = struct.pack("<H", 8000)
    # The first frames come together with the headers.
    connection.sendall(head + _frame(b"\0" + number) + _frame(b"\1" + number))
    if problem:
        connection.sendall(_frame(b"\1" + problem.encode()))
        return
    near, far = socket.socketpair()
    threading.Thread(target=serve, args=(far,), daemon=True).start()
    threading.Thread(target=_answers, args=(near, connection), daemon=True).start()
    with suppress(OSError, EOFError):
        while True:
            opcode, content = _read(connection)
            if opcode == 8:
                break
            if opcode == 2:
                assert content[:1] == b"\0"
                near.sendall(content[1:])
    near.close()


def _answers(near: socket.socket, connection: socket.socket) -> None:
    with suppress(OSError):
        connection.sendall(_frame(b"are you there", 9))
        while piece := near.recv(300):
            half = len(piece) // 2
            # A message in two frames, with a ping between them, and one in a single frame.
            if half > 100:
                connection.sendall(_frame(b"\0" + piece[:half], 2, final=False) + _frame(b"", 9))
                connection.sendall(_frame(piece[half:], 0))
            else:
                connection.sendall(_frame(b"\0" + piece))
        connection.sendall(_frame(b"", 8))


def _frame(content: bytes, opcode: int = 2, final: bool = True) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 126 else bytes([126]) + struct.pack("!H", size)
    return bytes([(0x80 if final else 0) | opcode]) + length + content


def _read(connection: socket.socket) -> tuple[int, bytes]:
    def exactly(size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = connection.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    first, second = exactly(2)
    assert second & 0x80, "clients mask what they send"
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(exactly(2 if size == 126 else 8), "big")
    mask = exactly(4)
    return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(exactly(size)))

"""A WebSocket to the API server, read and written by one thread.

OpenSSL's connections are not safe for two threads: when one of them reads a TLS session ticket while the other writes,
some data may never leave (measured: 4 of 200 connections). The library's own client reads in a separate thread.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

_PIECE = 64 * 1024
"""Bytes per read: more than a TLS record."""

_HELD = 1024 * 1024
"""Bytes buffered for a slow reader before reading stops."""

_LOOK = 0.25
"""Seconds between two checks whether `end` was called, if `local` cannot signal it."""

_CLOSE_TIMEOUT = 1.0
"""Seconds to send the remaining data and the close message."""

_LONGEST_MESSAGE = 16 * 1024 * 1024
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WebSocket:
    """A connected socket that speaks WebSocket, in the role of the client."""

    def __init__(self, connected: socket.socket, uri: str, subprotocol: str) -> None:
        from websockets.client import ClientProtocol
        from websockets.typing import Subprotocol
        from websockets.uri import parse_uri

        self._socket = connected
        self._protocol = ClientProtocol(
            parse_uri(uri), subprotocols=[Subprotocol(subprotocol)], max_size=_LONGEST_MESSAGE
        )
        self._outgoing = bytearray()
        self._fragments = bytearray()
        self._early: list[bytes] = []
        self._more = True
        self._ended = False

    def open(self, headers: Iterable[tuple[str, str]], timeout: float) -> None:
        """Send the upgrade request. Raises WebSocketException for another response, TimeoutError, and OSError."""
        from websockets.protocol import State

        request = self._protocol.connect()
        for name, value in headers:
            request.headers[name] = value
        self._protocol.send_request(request)
        self._collect()
        end = time.monotonic() + timeout
        self._socket.settimeout(timeout)
        self._socket.sendall(self._outgoing)
        self._outgoing.clear()
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer to the upgrade")
            self._socket.settimeout(left)
            self._early += self._received(self._socket.recv(_PIECE))
        if self._protocol.handshake_exc is not None:
            raise self._protocol.handshake_exc

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._protocol.subprotocol

    def carry(
        self, local: socket.socket, packed: Callable[[bytes], bytes], unpacked: Callable[[bytes], bytes | None]
    ) -> None:
        """Copy between `local` and the other end, until one of them or `end` closes the connection.

        packed: makes a message from data of `local`. unpacked: the data of a message; None ends the connection.
        """
        local.setblocking(False)
        self._socket.settimeout(0)
        incoming = bytearray()
        reading = True
        with selectors.DefaultSelector() as selector:
            while True:
                for message in self._messages(len(incoming) < _HELD):
                    data = unpacked(message)
                    if data is None:
                        self._close()
                        break
                    incoming += data
                if not _written(local, incoming) or not (self._is_open or incoming):
                    break
                if reading and len(self._outgoing) < _HELD:
                    reading = self._take(local, packed)
                if self._ended:
                    break
                self._flush()
                may_read = self._is_open and len(incoming) < _HELD
                listening = reading and len(self._outgoing) < _HELD
                _watch(selector, self._socket, read=may_read, write=self._is_open and bool(self._outgoing))
                _watch(selector, local, read=listening, write=bool(incoming))
                # The end of `local` is noticed while it is read.
                wait = 0 if may_read and self._more else None if listening else _LOOK
                ready = {key.fileobj for key, _ in selector.select(wait)}
                self._more = self._more or self._socket in ready
        self._close()
        with suppress(OSError):
            self._socket.settimeout(_CLOSE_TIMEOUT)
            self._socket.sendall(self._outgoing)

    def end(self) -> None:
        """End `carry`; closing `local`, which the caller does next, wakes it."""
        self._ended = True

    @property
    def _is_open(self) -> bool:
        from websockets.protocol import State

        return self._protocol.state is State.OPEN

    def _messages(self, may_read: bool) -> Iterator[bytes]:
        """The complete messages received, from at most one read."""
        early, self._early = self._early, []
        yield from early
        if not may_read or not self._more or not self._is_open:
            return
        try:
            yield from self._received(self._socket.recv(_PIECE))
        except _WOULD_BLOCK:
            self._more = False
        except OSError:
            self._received(b"")

    def _received(self, data: bytes) -> list[bytes]:
        """The messages completed by `data`; empty data is the end of the connection."""
        from websockets.frames import Frame, Opcode

        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        messages = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._fragments += event.data
                if event.fin:
                    messages.append(bytes(self._fragments))
                    self._fragments.clear()
        self._collect()
        return messages

    def _take(self, local: socket.socket, packed: Callable[[bytes], bytes]) -> bool:
        """Forward data of `local`; returns whether there may be more."""
        try:
            data = local.recv(_PIECE)
        except _WOULD_BLOCK:
            return True
        except OSError:
            return False
        if data and self._is_open:
            self._protocol.send_binary(packed(data))
            self._collect()
        return bool(data)

    def _collect(self) -> None:
        for piece in self._protocol.data_to_send():
            self._outgoing += piece

    def _flush(self) -> None:
        """Send as much as possible without waiting."""
        if not self._outgoing or not self._is_open:
            return
        # TLS within the TLS of a proxy, an object of urllib3 and not a socket, loses data if it has to wait.
        # So wait here, without reading in the meantime.
        waits = not isinstance(self._socket, socket.socket)
        self._socket.settimeout(None if waits else 0)
        if not _written(self._socket, self._outgoing):
            self._received(b"")
        self._socket.settimeout(0)

    def _close(self) -> None:
        if self._is_open:
            self._protocol.send_close(1000)
            self._collect()


def _written(target: socket.socket, data: bytearray) -> bool:
    """Send as much as possible and remove it from `data`; False if the connection is closed."""
    try:
        while data:
            del data[: target.send(data)]
    except _WOULD_BLOCK:
        return True
    except OSError:
        return False
    return True


def _watch(selector: selectors.BaseSelector, target: socket.socket, *, read: bool, write: bool) -> None:
    mask = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
    known = selector.get_map().get(target)
    if known is None and mask:
        selector.register(target, mask)
    elif known is not None and not mask:
        selector.unregister(target)
    elif known is not None and known.events != mask:
        selector.modify(target, mask)

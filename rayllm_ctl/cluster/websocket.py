"""A WebSocket to the API server, read and written by one thread.

OpenSSL's connections are not safe for two threads: when one of them reads a TLS session ticket while the other writes,
some data never leaves (observed for 2 of 100 connections). The library's own client has a thread that reads.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator

PIECE = 64 * 1024
"""Bytes that are read at once: more than a TLS record has."""

_HELD = 1024 * 1024
"""Bytes that wait for a slow reader before nothing more is read."""

_LOOK = 0.25
"""Seconds between two looks whether the connection is to end, where `local` cannot say it."""

_CLOSE_TIMEOUT = 1.0
"""Seconds to say that it ends."""

_LONGEST_MESSAGE = 16 * 1024 * 1024
_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WebSocket:
    """A connected socket that speaks WebSocket, in the role of the client."""

    def __init__(self, connected: socket.socket, uri: str, subprotocol: str, user_agent: str) -> None:
        from websockets.client import ClientProtocol
        from websockets.typing import Subprotocol
        from websockets.uri import parse_uri

        self._socket = connected
        self._protocol = ClientProtocol(
            parse_uri(uri), subprotocols=[Subprotocol(subprotocol)], max_size=_LONGEST_MESSAGE
        )
        self._user_agent = user_agent
        self._outgoing = bytearray()
        self._fragments = bytearray()
        self._early: list[bytes] = []
        self._more = True
        self._closed = False
        self._ended = False

    def open(self, headers: Iterable[tuple[str, str]], timeout: float) -> None:
        """Make the upgrade. Raises WebSocketException for another answer, TimeoutError, and OSError."""
        from websockets.protocol import State

        request = self._protocol.connect()
        request.headers["User-Agent"] = self._user_agent
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
            self._early += self._received(self._socket.recv(PIECE))
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

        packed: the message for data of `local`. unpacked: the data in a message; None ends the connection.
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
                        self._closed = True
                        break
                    incoming += data
                if not _written(local, incoming) or (self._closed and not incoming):
                    break
                if reading and len(self._outgoing) < _HELD:
                    reading = self._take(local, packed)
                if self._ended:
                    break
                self._flush()
                room = len(incoming) < _HELD and not self._closed
                _watch(selector, self._socket, read=room, write=bool(self._outgoing))
                listening = reading and len(self._outgoing) < _HELD
                _watch(selector, local, read=listening, write=bool(incoming))
                # The end of `local` is noticed while it is listened to.
                wait = 0 if room and self._more else None if listening else _LOOK
                ready = {key.fileobj for key, _ in selector.select(wait)}
                self._more = self._more or self._socket in ready
        self._say_goodbye()

    def end(self) -> None:
        """Let `carry` end, when `local` has no more data or is closed."""
        self._ended = True

    def _messages(self, room: bool) -> Iterator[bytes]:
        """Whole messages that have come, of one read at most."""
        early, self._early = self._early, []
        yield from early
        if not room or not self._more or self._closed:
            return
        try:
            yield from self._received(self._socket.recv(PIECE))
        except _WAIT:
            self._more = False
        except OSError:
            self._closed = True

    def _received(self, data: bytes) -> list[bytes]:
        """The whole messages that end in `data`; empty data is the end of the connection."""
        from websockets.frames import Frame, Opcode

        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            self._closed = True
        messages = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode is Opcode.CLOSE:
                self._closed = True
            elif event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._fragments += event.data
                if event.fin:
                    messages.append(bytes(self._fragments))
                    self._fragments.clear()
        self._collect()
        return messages

    def _take(self, local: socket.socket, packed: Callable[[bytes], bytes]) -> bool:
        """Send on what `local` has; whether it may have more."""
        try:
            data = local.recv(PIECE)
        except _WAIT:
            return True
        except OSError:
            data = b""
        if data and not self._closed:
            self._protocol.send_binary(packed(data))
            self._collect()
        return bool(data)

    def _collect(self) -> None:
        for piece in self._protocol.data_to_send():
            self._outgoing += piece

    def _flush(self) -> None:
        if isinstance(self._socket, socket.socket):
            if not _written(self._socket, self._outgoing):
                self._closed = True
        elif self._outgoing:
            # TLS within the TLS of a proxy, which urllib3 implements, loses data when it would have to wait.
            self._socket.settimeout(None)
            self._socket.sendall(self._outgoing)
            self._socket.settimeout(0)
            self._outgoing.clear()

    def _say_goodbye(self) -> None:
        from websockets.protocol import State

        try:
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(1000)
                self._collect()
            self._socket.settimeout(_CLOSE_TIMEOUT)
            self._socket.sendall(self._outgoing)
        except OSError:
            return  # the other end has closed it


def _written(target: socket.socket, data: bytearray) -> bool:
    """Send what can be sent now and remove it from `data`; False where nothing can be sent any more."""
    try:
        while data:
            del data[: target.send(data)]
    except _WAIT:
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

"""HTTP/1.1 for one purpose: send prepared requests, and note when each piece of an answer arrives.

httptools parses; what a client library adds (redirects, retries, decoding, a future for each step) would be measured
with the server.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

from rayllm_ctl.loadtest.settings import Target

clock = time.perf_counter
"""Seconds; all moments of a test are on this clock."""

_SWEEP = 0.05
"""Seconds between two looks for requests whose time is over."""


@dataclass(slots=True)
class Exchange:
    """A request that is sent, and what came back.

    due: when it should have been sent; sent: when it was. ended: when the answer was whole, or had failed.
    error: a kind (`connect`, `reset`, `timeout`), empty if HTTP says that the answer ended, or `broken`.
    broken: the connection ended in an orderly way, but in the middle of the body.
    """

    due: float
    done: Callable[[Exchange], None]
    sent: float = 0.0
    ended: float = 0.0
    status: int = 0
    streamed: bool = False
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    error: str = ""
    message: str = ""
    broken: bool = False


class Connection(asyncio.Protocol):
    """A connection to the server: one exchange at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._now = 0.0
        self._sized = False
        """Whether the answer's headers say where its body ends; without, it ends with the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has a class of its own

    def send(self, request: bytes, exchange: Exchange) -> None:
        """Send a whole request."""
        assert self._transport is not None
        self._exchange = exchange
        self._sized = False
        exchange.sent = clock()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._now = clock()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.close()
            self._finish("malformed", f"the answer is not HTTP: {error}")

    # What httptools calls.
    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"content-type":
            if self._exchange is not None:
                self._exchange.streamed = value.lower().startswith(b"text/event-stream")
        elif lower in (b"content-length", b"transfer-encoding"):
            self._sized = True

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.pieces.append((self._now, body))

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or exchange.status // 100 == 1:
            return
        if self._parser.should_keep_alive():
            self._exchange = None
            # llhttp begins again by itself; the connection is free before `done` may want one.
            self._pool.release(self)
        else:
            self.close()
        self._complete(exchange)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.status and not self._sized and exc is None:
            self._complete(exchange)
        elif exchange.status and exc is None:
            exchange.broken = True
            self._complete(exchange)
        else:
            self._finish("reset", str(exc) if exc else "the server closed the connection without an answer")

    def time_out(self) -> None:
        """Give up the exchange: its time is over."""
        exchange = self._exchange
        self._exchange = None
        self.close()
        if exchange is not None:
            when = "in the middle of the answer" if exchange.pieces else "no answer"
            self._pool.finish(exchange, "timeout", when)

    def close(self) -> None:
        """End the connection, whatever is on its way."""
        if self._transport is not None:
            self._transport.abort()

    def _complete(self, exchange: Exchange) -> None:
        self._exchange = None
        self._pool.finish(exchange)

    def _finish(self, error: str, message: str) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            self._pool.finish(exchange, error, message)


class Pool:
    """Connections to one server: those that are idle are used again, the last one first, and others opened as needed.

    timeout: seconds that connecting may take, and an exchange from when it was sent.
    """

    def __init__(self, target: Target, timeout: float) -> None:
        parts = urlsplit(target.url)
        self._host, self._secure = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._context = tls_context(target) if self._secure else None
        self._timeout = timeout
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._running: OrderedDict[int, tuple[Exchange, Connection | None]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def running(self) -> int:
        """How many exchanges are on their way."""
        return len(self._running)

    def start(self, request: bytes, exchange: Exchange) -> None:
        """Send a request; `exchange.done` is called when it is over, however it ends."""
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP, self._sweep)
        if self._idle:
            self._send(self._idle.pop(), request, exchange)
            return
        self._running[id(exchange)] = exchange, None
        task = asyncio.get_running_loop().create_task(self._connect(request, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, connection: Connection, request: bytes, exchange: Exchange) -> None:
        # In the order of sending, for _sweep.
        self._running.pop(id(exchange), None)
        self._running[id(exchange)] = exchange, connection
        connection.send(request, exchange)

    async def _connect(self, request: bytes, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self), self._host, self._port, ssl=self._context
                )
        except TimeoutError:
            self.finish(exchange, "connect", f"no connection to {self._host}:{self._port} within {self._timeout:g} s")
            return
        except OSError as error:  # ssl's errors are among them
            self.finish(exchange, "connect", error.strerror or str(error))
            return
        self._open.add(connection)
        if self._closed or id(exchange) not in self._running:
            connection.close()
            return
        self._send(connection, request, exchange)

    def release(self, connection: Connection) -> None:
        """A connection may be used for the next request."""
        self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """A connection is no more."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def finish(self, exchange: Exchange, error: str = "", message: str = "") -> None:
        """An exchange is over; nothing if it was before."""
        if self._running.pop(id(exchange), None) is None:
            return
        exchange.ended, exchange.error, exchange.message = clock(), error, message
        exchange.done(exchange)

    def _sweep(self) -> None:
        limit = clock() - self._timeout
        late = []
        for exchange, connection in self._running.values():
            if connection is None:
                continue  # _connect has a limit of its own
            if exchange.sent > limit:
                break
            late.append(connection)
        for connection in late:
            connection.time_out()
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP, self._sweep) if not self._closed else None

    async def close(self) -> None:
        """End all connections; what is on its way is dropped without a word."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._running.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._open):
            connection.close()


def tls_context(target: Target) -> ssl.SSLContext:
    """What is trusted of a server with https. OSError or ssl.SSLError for a bad `ca_file`."""
    context = ssl.create_default_context(cafile=target.ca_file or None)
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context

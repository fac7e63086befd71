"""A server whose behaviour is known: it does what the request's `user` field says, and notes when it wrote what."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.clock import Clock


class Steps(Clock):
    """The clock of a server and its clients. It advances where the server pauses, once the client has all that was sent
    to it: so a single client sees each piece at the moment at which it was sent.

    sent, received: bytes, by the client's port.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[int] = Counter()
        self.received: Counter[int] = Counter()

    async def pause(self, port: int, seconds: float) -> None:
        while self.received[port] < self.sent[port]:
            await asyncio.sleep(0.001)
        self.sleep(seconds)


class KnownServer:
    """Serves /v1/chat/completions and /v1/completions on a port of this machine, in a thread.

    The `model` of a request is a JSON object that says how to answer:
    first, gap: seconds before the first chunk and between chunks. tokens: chunks with content. status: instead of 200.
    end: how the stream ends: done ([DONE]), cut (in order, too early), reset, late_reset (after the finish_reason),
    silent (never). malformed, event_error: instead of the second chunk. split: bytes are written in pieces this long.
    together: chunks in one packet. usage: whether there is any. meet: how many requests have to be there before one is
    answered. answers: how many requests since `written` was cleared are answered; later ones never are.
    """

    def __init__(self) -> None:
        self.steps: Steps | None = None
        """The clock; None: time passes."""
        self.silent: Callable[[], None] = lambda: None
        """Called where an answer never ends."""
        self.written: list[list[float]] = []
        """For each answer: when it arrived, and when each of its chunks was written."""
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._meetings: dict[int, asyncio.Barrier] = {}
        self.port = 0

    def __enter__(self) -> KnownServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                self.heads.append(head)
                self.bodies.append(body)
                if not await self._answer(json.loads(body["model"]), body, writer):
                    return

    async def _answer(self, how: dict[str, Any], body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        times = [self._now()]
        self.written.append(times)
        if len(self.written) > how.get("answers", len(self.written)):
            await self._never(writer)
        if parties := how.get("meet"):
            await self._meetings.setdefault(parties, asyncio.Barrier(parties)).wait()
        if status := how.get("status"):
            text = how.get("body", '{"error": {"message": "no"}}').encode()
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))
            return True
        if how.get("end") == "nothing":
            writer.transport.abort()
            return False
        if not body.get("stream"):
            return await self._whole(how, times, writer)
        self._send(writer, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await self._write(how, writer, _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
        for number in range(how.get("tokens", 3)):
            await self._pause(writer, how.get("gap", 0) if number else how.get("first", 0))
            if number == 1 and "malformed" in how:
                await self._write(how, writer, b"data: {not json\n\n")
            if number == 1 and "event_error" in how:
                await self._write(how, writer, _event({"error": {"message": "the engine is dead"}}))
            times.append(self._now())
            chunk = _event({"choices": [{"delta": {"content": f" né{number}"}}]})
            await self._write(how, writer, chunk * how.get("together", 1))
        return await self._finish(how, writer)

    async def _finish(self, how: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        end = how.get("end", "done")
        if end == "silent":
            await self._never(writer)
        if end in ("cut", "reset"):
            await writer.drain()
            await self._pause(writer, 0.02)
            if end == "reset":
                _reset(writer)
            writer.close()
            return False
        await self._write(how, writer, _event({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
        if end == "late_reset":
            await writer.drain()
            await self._pause(writer, 0.02)
            _reset(writer)
            writer.close()
            return False
        if how.get("usage", True):
            usage = {"prompt_tokens": 7, "completion_tokens": how.get("tokens", 3) * how.get("together", 1)}
            await self._write(how, writer, _event({"choices": [], "usage": usage}))
        await self._write(how, writer, b"data: [DONE]\n\n")
        self._send(writer, b"0\r\n\r\n")
        return True

    async def _never(self, writer: asyncio.StreamWriter) -> None:
        await self._pause(writer, 0)
        self.silent()
        await asyncio.sleep(60)

    def _now(self) -> float:
        return self.steps.now if self.steps else time.perf_counter()

    async def _pause(self, writer: asyncio.StreamWriter, seconds: float) -> None:
        if self.steps:
            await self.steps.pause(writer.get_extra_info("peername")[1], seconds)
        else:
            await asyncio.sleep(seconds)

    async def _whole(self, how: dict[str, Any], times: list[float], writer: asyncio.StreamWriter) -> bool:
        await self._pause(writer, how.get("first", 0))
        usage = {"prompt_tokens": 7, "completion_tokens": 5}
        text = how.get("body") or json.dumps({"choices": [{"message": {"content": "all"}}], "usage": usage})
        times.append(self._now())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text.encode())
        return True

    async def _write(self, how: dict[str, Any], writer: asyncio.StreamWriter, data: bytes) -> None:
        size = how.get("split", len(data))
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            self._send(writer, b"%x\r\n%s\r\n" % (len(piece), piece))
            if size < len(data):
                await writer.drain()
                await asyncio.sleep(0)

    def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self.steps:
            self.steps.sent[writer.get_extra_info("peername")[1]] += len(data)
        writer.write(data)


def _event(data: Any) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    import socket
    import struct

    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Behaviour = Callable[..., str]


def behaviour(**how: Any) -> str:
    """The model's name that asks for a behaviour."""
    return json.dumps(how)

"""A server that answers at once, or at a set pace: python load_server.py PORT CHUNKS FIRST GAP (seconds).

CHUNKS 0: a whole answer; else a stream of that many chunks. It does no more than that, so that it is not what limits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvloop

PORT, CHUNKS, FIRST, GAP = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
COMMON = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
USAGE = {"prompt_tokens": 16, "completion_tokens": max(1, CHUNKS), "total_tokens": 16 + CHUNKS}


def event(**fields: Any) -> bytes:
    data = b"data: " + json.dumps({**COMMON, **fields}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def choice(delta: dict[str, Any], finish: str | None = None) -> list[dict[str, Any]]:
    return [{"index": 0, "delta": delta, "finish_reason": finish}]


MESSAGE = [{"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}]
WHOLE = json.dumps({**COMMON, "choices": MESSAGE, "usage": USAGE}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(WHOLE), WHOLE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = event(choices=choice({"content": " yes"}))
LAST = event(choices=choice({}, "stop")) + event(choices=[], usage=USAGE)
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Server(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self._transport, self._buffer, self._tasks = transport, b"", set[asyncio.Task[None]]()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            if not CHUNKS and not FIRST:
                self._transport.write(ANSWER)
                continue
            task = asyncio.get_running_loop().create_task(self._answer())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self) -> None:
        await asyncio.sleep(FIRST)
        if not CHUNKS:
            self._transport.write(ANSWER)
            return
        self._transport.write(HEAD)
        for number in range(CHUNKS):
            if number:
                await asyncio.sleep(GAP)
            self._transport.write(CHUNK)
        self._transport.write(LAST + DONE)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", PORT, backlog=1024)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


uvloop.run(main())

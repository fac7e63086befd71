"""Server-sent events on their way to the client: passed on as they are, except for errors and unrequested usage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST = 16 * 2**20
"""Bytes of the longest event; a stream with a longer one is an error of the server."""


class EventFilter:
    """One stream. Chunks of complete events pass untouched; an incomplete event waits for its end.

    Every event counts as one token until the engine reports the usage: with speculative decoding or `stream_interval`
    an event has several, so the pipeline asks the engine for the usage where tokens are limited (`drop_usage`).
    """

    def __init__(self, drop_usage: bool, replace: Callable[[Any], bytes]) -> None:
        self._drop_usage = drop_usage
        self._replace = replace
        self._pending = b""
        self.events = 0
        self.usage: dict[str, Any] | None = None
        self.failed = False

    def feed(self, chunk: bytes, last: bool) -> bytes:
        """What is sent to the client for a chunk; `last` if no more follows."""
        if not self._pending and chunk.endswith(b"\n\n") and b'"error"' not in chunk and b'"usage"' not in chunk:
            self.events += chunk.count(b"\n\n") - chunk.count(b"data: [DONE]\n\n")
            return chunk
        data, start, passed = self._pending + chunk, 0, []
        for match in _END.finditer(data):
            passed.append(self._event(data[start : match.end()]))
            start = match.end()
        self._pending = data[start:]
        if last and self._pending:
            passed.append(self._event(self._pending))
            self._pending = b""
        if len(self._pending) > _LONGEST:
            raise ValueError("the application sent an event of more than 16 MiB")
        return b"".join(passed)

    def _event(self, event: bytes) -> bytes:
        if b'"error"' not in event and b'"usage"' not in event:
            self.events += b"[DONE]" not in event and b"data:" in event
            return event
        lines = [line[5:] for line in event.splitlines() if line.startswith(b"data:")]
        try:
            value = json.loads(b"".join(lines))
        except ValueError:
            return event if b'"error"' not in event else self._failure(event)
        if not isinstance(value, dict):
            return event
        if value.get("error") is not None or value.get("object") == "error":
            return self._failure(value)
        self.events += 1
        if isinstance(usage := value.get("usage"), dict):
            self.usage = usage
            if self._drop_usage and value.get("choices") == []:
                self.events -= 1
                return b""
        return event

    def _failure(self, value: Any) -> bytes:
        self.failed = True
        return b"data: " + self._replace(value) + b"\n\n"

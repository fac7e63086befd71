"""Chat requests whose answers are read when a test wants them, and clients that leave before that."""

from __future__ import annotations

import http.client
import json
import select
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT = 300.0
"""Seconds that a client waits for its answer: longer than any wait of a test."""


@dataclass(frozen=True)
class Answer:
    """A complete response."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def code(self) -> str:
        """The code of an error, `` without one."""
        return str(json.loads(self.text)["error"]["code"]) if self.status >= 400 else ""

    @property
    def complete(self) -> bool:
        """Whether it is a whole answer: a stream ends with its last line."""
        streamed = "event-stream" in str(self.headers["Content-Type"])
        return self.status == 200 and (not streamed or "data: [DONE]" in self.text)


class Chat:
    """One request, sent when it is made, over a connection of its own. Its id is its name.

    url: of the service, without `/v1`. key: an API key.
    """

    def __init__(
        self, url: str, model: str, prompt: str,
        *, name: str, key: str = "", stream: bool = False, max_tokens: int = 4,
    ) -> None:  # fmt: skip
        self.name = name
        headers = {"Content-Type": "application/json", "x-request-id": name}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        body = {
            "model": model, "max_tokens": max_tokens, "ignore_eos": True, "stream": stream,
            "messages": [{"role": "user", "content": prompt}],
        }  # fmt: skip
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT)
        self._connection.connect()
        self._socket = self._connection.sock
        self._connection.request("POST", f"{parts.path}/v1/chat/completions", json.dumps(body), headers)

    def begun(self) -> bool:
        """Whether something of the response is there, or the connection has ended."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def answer(self) -> Answer:
        """Wait for the whole response."""
        try:
            response = self._connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            self._connection.close()

    def leave(self) -> None:
        """End the connection without having read an answer."""
        self._connection.close()

"""Chat requests sent without a break, and a record of every one: what failed, and how long nothing came."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

FAILURE_PAUSE_SECONDS: Final = 0.5
"""What a client waits after a failure, so that a service that is down is asked about twice a second and client."""


@dataclass(frozen=True)
class Request:
    """One request. `begin` is in seconds since the load began; `error` is empty if it was answered."""

    begin: float
    seconds: float
    error: str = ""

    @property
    def end(self) -> float:
        return self.begin + self.seconds


class Load:
    """Chat requests in flight, `clients` at a time, until the block ends or `limit` seconds are over.

    url: of the service, without `/v1`. pause: seconds that a client waits after an answer. timeout: seconds after which
    a request counts as failed. key: an API key. streaming: how many of the clients ask for a stream.
    """

    def __init__(
        self, url: str, model: str, clients: int,
        max_tokens: int = 64, pause: float = 0, timeout: float = 120, limit: float = 900, key: str = "",
        streaming: int = 0,
    ) -> None:  # fmt: skip
        self.url, self.model, self.max_tokens, self.pause, self.timeout = url, model, max_tokens, pause, timeout
        self.requests: list[Request] = []
        self.begun = 0
        """How many requests have been begun."""
        self._limit, self._streaming = limit, streaming
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(i,), daemon=True) for i in range(clients)]
        self._began = 0.0
        self._ended: float | None = None

    def __enter__(self) -> Load:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(self.timeout + 5)
        self._ended = self.now

    @property
    def now(self) -> float:
        """Seconds since the load began; after its end, how long it lasted."""
        return time.monotonic() - self._began if self._ended is None else self._ended

    @property
    def answered(self) -> int:
        """How many requests have been answered."""
        return sum(not one.error for one in self._finished())

    @property
    def failed(self) -> list[Request]:
        """The requests that failed, in the order in which they ended."""
        return [one for one in self._finished() if one.error]

    def gap(self) -> tuple[float, float]:
        """The longest time without an answer: its begin, in seconds since the load began, and its length."""
        answers = [0.0, *(one.end for one in self._finished() if not one.error), self.now]
        return max(((a, b - a) for a, b in pairwise(answers)), key=lambda pair: pair[1])

    def figures(self) -> str:
        """What was counted, on one line."""
        begin, seconds = self.gap()
        return (
            f"{self.answered} answered, {len(self.failed)} failed; "
            f"longest time without an answer {seconds:.1f} s, from {begin:.1f} s of {self.now:.1f} s"
        )

    def _finished(self) -> list[Request]:
        with self._lock:
            return sorted(self.requests, key=lambda one: one.end)

    def _client(self, number: int) -> None:
        # Without an early end a request is in flight for seconds: autoscaling counts what is in flight.
        stream = number < self._streaming
        body = json.dumps(
            {
                "model": self.model, "seed": number, "max_tokens": self.max_tokens, "ignore_eos": True,
                "messages": [{"role": "user", "content": f"Question {number}"}], "stream": stream,
            }
        )  # fmt: skip
        while not self._stop.is_set() and self.now < self._limit:
            with self._lock:
                self.begun += 1
            begin = self.now
            error = _post(f"{self.url}/v1/chat/completions", body, self._headers, self.timeout, stream)
            with self._lock:
                self.requests.append(Request(begin, self.now - begin, error))
            self._stop.wait(FAILURE_PAUSE_SECONDS if error else self.pause)


def _post(url: str, body: str, headers: dict[str, str], timeout: float, stream: bool) -> str:
    """Why the request failed, or nothing. One connection per request, as after an outage none is left to use.

    A stream that ends before its last line has failed, too.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    try:
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    if answer.status == 200 and stream and "data: [DONE]" not in text:
        return f"the stream broke off: {' '.join(text.split())[-200:]}"
    return "" if answer.status == 200 else f"HTTP {answer.status}: {' '.join(text.split())[:200]}"

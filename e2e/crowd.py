"""Requests to the API server by the thousand, on a few connections side by side: kubectl sends one after the other."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable
from http.client import HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from e2e.harness import Object, Target
from e2e.simulate.watch import from_kubeconfig

_CONNECTIONS = 12


class Request(NamedTuple):
    """`path`: with its query. `body`: of a PATCH, a merge patch."""

    method: str
    path: str
    body: Object | None = None


class Client:
    """One connection to the API server, with the client certificate of the target's kubeconfig."""

    def __init__(self, target: Target) -> None:
        api = from_kubeconfig(target.kubeconfig)
        self._connection = HTTPSConnection(urlsplit(api.url).netloc, context=api.tls, timeout=120)

    def send(self, request: Request) -> Any:
        """The answer to one request; fails unless it succeeded."""
        kind = "application/merge-patch+json" if request.method == "PATCH" else "application/json"
        body = json.dumps(request.body) if request.body is not None else None
        self._connection.request(request.method, request.path, body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, f"{request.method} {request.path}: {answer.status} {text[:500]!r}"
        return json.loads(text)


def send_all(target: Target, requests: Iterable[Request]) -> None:
    """Send requests in no particular order; fails if one of them does."""
    waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    failures: list[BaseException] = []

    def work() -> None:
        client = Client(target)
        try:
            while (request := waiting.get()) is not None:
                client.send(request)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for request in requests:
        waiting.put(request)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]

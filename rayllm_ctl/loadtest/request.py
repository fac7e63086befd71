"""The bytes of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

from rayllm_ctl.loadtest.settings import API, Target

PATHS: dict[API, str] = {"chat": "/chat/completions", "completions": "/completions"}


class Requests:
    """Builds requests to one target.

    fields: of every request; those of a row come before them. stream: ask for a stream, and for usage at its end.
    """

    def __init__(self, target: Target, fields: Mapping[str, Any], stream: bool) -> None:
        parts = urlsplit(target.url)
        host = parts.netloc.rpartition("@")[2]
        lines = [
            f"POST {parts.path.rstrip('/')}{PATHS[target.api]} HTTP/1.1",
            f"Host: {host}",
            "User-Agent: rayllm-ctl",
            "Content-Type: application/json",
            f"Accept: {'text/event-stream' if stream else 'application/json'}",
        ]
        credentials = [[f"Authorization: Bearer {key}"] for key in target.keys] or [[]]
        heads = ["\r\n".join([*lines, *credential, "Content-Length: "]) for credential in credentials]
        self._heads = cycle([head.encode("ascii") for head in heads])
        self._models = cycle(target.models)
        self._fields = dict(fields)
        if stream:
            self._fields |= {"stream": True, "stream_options": {"include_usage": True}}

    def build(self, row: Mapping[str, Any]) -> bytes:
        """A request with the fields of a row: messages or prompt, max_tokens and others."""
        body = json.dumps({"model": next(self._models), **row, **self._fields}).encode()
        return b"%s%d\r\n\r\n%s" % (next(self._heads), len(body), body)

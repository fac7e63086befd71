"""Answers that wait for the rest of their batch, on their way to the driver before it.

Ray Data passes a batch on when its last row is answered, which may be minutes after the first. What waits longer than
SEND_SECONDS goes to the driver by itself, so that it is counted, and kept, without the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

SEND_SECONDS = 2.0

Key = tuple[int, int]
"""A row: number of its part, and index in it."""


class Early:
    """The answers of one engine that wait. `ledger`: the handle of the Ledger's actor."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._waiting: dict[Key, dict[str, Any]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Key, answer: dict[str, Any]) -> None:
        """A row has an answer, with the columns of a result."""
        self._waiting[key] = answer
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SEND_SECONDS, self._send)

    def forget(self, keys: Iterable[Key]) -> None:
        """Their batch is complete, and takes them along."""
        for key in keys:
            self._waiting.pop(key, None)

    def _send(self) -> None:
        self._timer = None
        rows = [{**answer, "part": part, "index": index} for (part, index), answer in self._waiting.items()]
        self._waiting = {}
        if rows:
            self._ledger.answered.remote(rows)

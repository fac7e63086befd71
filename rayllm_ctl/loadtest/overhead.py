"""How busy the generator of the load is itself: what it measures is the server's only as long as it is not."""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import Any

from rayllm_ctl.loadtest.connection import clock
from rayllm_ctl.loadtest.samples import distribution

_PERIOD = 0.02
BUSY_SHARE = 0.85
"""Share of one core from which on the generator counts as saturated: it runs on one."""

_LEAST = 0.9
"""Seconds of a test below which nothing is said about that."""

LATE = 0.05
"""Seconds by which its event loop may be late at the 99th percentile before that counts as saturated."""


class Overhead:
    """CPU time of this process, and by how much its event loop is late."""

    def __init__(self) -> None:
        self._late = array("d")
        self._task: asyncio.Task[None] | None = None
        self._cpu = self._wall = 0.0
        self._used: tuple[float, float] | None = None

    def start(self) -> None:
        """Begin to measure."""
        self._cpu, self._wall = time.process_time(), clock()
        self._task = asyncio.get_running_loop().create_task(self._measure())

    def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._used = time.process_time() - self._cpu, clock() - self._wall

    async def _measure(self) -> None:
        while True:
            wanted = clock() + _PERIOD
            await asyncio.sleep(_PERIOD)
            self._late.append(max(0.0, clock() - wanted))

    def figures(self) -> dict[str, Any]:
        """cpuShare: of one core. lateSeconds: of the event loop. saturated: whether that spoils the figures."""
        cpu, wall = self._used or (0.0, 0.0)
        share = cpu / wall if wall else 0.0
        late = distribution(self._late)
        busy = share > BUSY_SHARE or bool(late and late["p99"] > LATE)
        return {"cpuShare": share, "lateSeconds": late, "saturated": busy and wall > _LEAST}

"""Samples a service while a load test runs, and adds the samples to the results.

The samples are taken in a thread of this process. With --local the generator shares the process: a sample mostly waits
for the API server, and parsing the metrics of a pod (400 KB) holds the interpreter for less than a millisecond, far
below the 50 ms from which the generator counts as late. A separate process would need its own connection and
credentials.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rayllm_ctl.loadtest.settings import Load, Settings
from rayllm_ctl.model.bench.load import LoadProgress
from rayllm_ctl.model.bench.service import LoadLook, during

EVERY_SECONDS = 2.0
"""Seconds between two samples."""

LookAt = Callable[[], LoadLook]
RunLoads = Callable[[Settings], Sequence[Mapping[str, Any]]]
"""Sends the loads of settings and returns their results."""


ShowProgress = Callable[[LoadProgress | str], None]
"""Draws how far a load is, or a step before the first one in words."""


class LoadWatch:
    """`report`: takes the progress of the loads, and passes it on to `show`.

    The clocks of a Job and of this machine may differ: when a load began follows from its progress, which says how long
    ago that was. searching: the number of loads is unknown.
    """

    def __init__(self, show: ShowProgress, every: float = EVERY_SECONDS, *, searching: bool = False) -> None:
        self.show = show
        self._every, self._searching = every, searching
        self._begins: dict[int, float] = {}
        self._loads: tuple[Load, ...] = ()
        self._before = 0

    def report(self, progress: Mapping[str, Any]) -> None:
        """Progress of a load."""
        if progress.get("seconds") is not None:
            # The report with the longest delay gives a start that is too late.
            begin, load = time.monotonic() - progress["seconds"], int(progress["load"])
            self._begins[load] = min(begin, self._begins.get(load, begin))
        place = int(progress["load"])
        self.show(
            LoadProgress(
                load={name: value for name, value in asdict(self._loads[place]).items() if value is not None},
                number=self._before + place + 1,
                count=None if self._searching else len(self._loads),
                **{name: progress[name] for name in ("done", "failed", "running", "elapsed", "ended")},
            )
        )

    def over(self, run: RunLoads, look: LookAt | None) -> RunLoads:
        """`run`, with the samples of the service in its results; null if there are none."""

        def watched(settings: Settings) -> list[Mapping[str, Any]]:
            self._begins.clear()
            self._before += len(self._loads)
            self._loads = settings.loads
            if look is None:
                return [{**result, "service": None} for result in run(settings)]
            with self._looking(look) as looks:
                results = run(settings)
            return [{**result, "service": self._seen(looks, load, result)} for load, result in enumerate(results)]

        return watched

    def _seen(
        self, looks: Sequence[tuple[float, LoadLook]], load: int, result: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        begin = self._begins.get(load)
        return during(looks, begin, result["durationSeconds"]) if begin is not None else None

    @contextmanager
    def _looking(self, look: LookAt) -> Iterator[list[tuple[float, LoadLook]]]:
        looks: list[tuple[float, LoadLook]] = []
        ended = threading.Event()

        def watch() -> None:
            due = time.monotonic()
            while not ended.is_set():
                seen = look()
                # The end of the sample: on busy nodes it takes seconds, and may start before a load that it shows.
                looks.append((time.monotonic(), seen))
                due = max(due + self._every, time.monotonic())
                ended.wait(due - time.monotonic())

        thread = threading.Thread(target=watch, name="look", daemon=True)
        thread.start()
        try:
            yield looks
        finally:
            ended.set()
            thread.join(self._every)

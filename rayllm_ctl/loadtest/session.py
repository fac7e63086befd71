"""Runs the loads of a test one after another."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.loadtest.conditions import conditions
from rayllm_ctl.loadtest.connection import clock
from rayllm_ctl.loadtest.driver import Driver
from rayllm_ctl.loadtest.prompts import Tokenizer, rows
from rayllm_ctl.loadtest.request import Requests
from rayllm_ctl.loadtest.result import result
from rayllm_ctl.loadtest.samples import Samples
from rayllm_ctl.loadtest.settings import Load, Report, Settings

new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
try:
    import uvloop
except ImportError:
    pass  # neither a dependency nor part of every image: asyncio's own loop takes more CPU time for a request
else:
    new_event_loop = uvloop.new_event_loop

_EVERY = 1.0
"""Seconds between two reports of progress."""


def measure(settings: Settings, report: Report, tokenizer: Tokenizer | None = None) -> list[dict[str, Any]]:
    """The results of all loads. An interrupt (Ctrl-C, SIGTERM) ends the test: the result of what was measured is the
    last one, with `interrupted` true."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_all(settings, report, tokenizer))


async def _all(settings: Settings, report: Report, tokenizer: Tokenizer | None) -> list[dict[str, Any]]:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Elsewhere Python has no handlers of this kind, and the test just ends.
    if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted.set)
    results = []
    for place, load in enumerate(settings.loads):
        numbered = _numbered(report, place)
        results.append(await measure_load(settings, load, numbered, tokenizer, interrupted))
        if interrupted.is_set():
            break
    return results


def _numbered(report: Report, place: int) -> Report:
    return lambda progress: report({**progress, "load": place})


async def measure_load(
    settings: Settings, load: Load, report: Report, tokenizer: Tokenizer | None, interrupted: asyncio.Event
) -> dict[str, Any]:
    """The result of one load."""
    count = (lambda text: len(tokenizer.encode(text, add_special_tokens=False))) if tokenizer else None
    samples = Samples(settings.objective, count)
    requests = Requests(settings.target, settings.body, settings.stream)
    contents = rows(settings.prompts, settings.target.api, tokenizer)
    begun = datetime.now(UTC)
    driver = Driver(settings.target, load, requests, contents, samples, settings.prompts.seed)
    running = asyncio.create_task(driver.run())
    stopping = asyncio.create_task(interrupted.wait())
    while not running.done():
        await asyncio.wait({running, stopping}, timeout=_EVERY, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            driver.stop()
            await running
        passed = clock() - samples.first if samples.total else None
        counts = {"done": samples.total, "failed": samples.errors.total(), "running": driver.running}
        elapsed = None if driver.begun is None else clock() - driver.begun
        report({**counts, "seconds": passed, "elapsed": elapsed, "ended": running.done()})
    stopping.cancel()
    await running
    return conditions(settings, begun) | result(driver, load, settings.objective, interrupted.is_set())

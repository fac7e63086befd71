"""When a load ran, as this machine sees it, and the metrics of a server known by its address."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from rayllm_ctl.loadtest.settings import Load, Settings, Target
from rayllm_ctl.model.bench.load import LoadProgress
from rayllm_ctl.model.bench.service import LoadLook
from rayllm_ctl.workflows.bench import watch as benchwatch
from rayllm_ctl.workflows.bench.url import url_look
from rayllm_ctl.workflows.bench.watch import LoadWatch
from tests.clock import Clock

SETTINGS = Settings(Target("http://x/v1", ("m",)), (Load(concurrency=1, requests=1),))


class Looks:
    """Looks that end when a test says so."""

    def __init__(self) -> None:
        self._number = 0
        self._begun, self._ends = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self) -> LoadLook:
        self._begun.release()
        self._ends.acquire()
        self._number += 1
        return LoadLook(replicas=self._number)

    def await_begin(self) -> None:
        assert self._begun.acquire(timeout=30)

    def end(self) -> None:
        """End the look that has begun, and await the begin of the next one: by then what was seen is noted."""
        self._ends.release()
        self.await_begin()

    def close(self) -> None:
        self._ends.release()


@pytest.fixture
def looks() -> Iterator[Looks]:
    made = Looks()
    yield made
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(benchwatch, "time", made)
    return made


def test_each_load_has_what_was_seen_while_it_ran(looks: Looks, clock: Clock) -> None:
    passed: list[LoadProgress | str] = []
    watch = LoadWatch(passed.append, every=0)

    def run(_: Settings) -> list[Mapping[str, Any]]:
        looks.await_begin()
        looks.end()
        for load in (0, 1):
            clock.sleep(1)
            begin = clock.now
            for _look in range(2):
                clock.sleep(1)
                looks.end()
            # The clock of a Job says nothing here; a line that comes late must not move the begin.
            now = {"load": load, "done": 1, "failed": 0, "running": 0, "elapsed": 1.0, "ended": False}
            watch.report({**now, "seconds": None})
            watch.report({**now, "seconds": clock.now - begin})
            watch.report({**now, "seconds": clock.now - begin - 0.5})
        return [{"durationSeconds": 2, "name": place} for place in (0, 1)]

    first, second = watch.over(run, looks)(replace(SETTINGS, loads=SETTINGS.loads * 2))
    assert (first["name"], second["name"], len(passed)) == (0, 1, 6)
    seen = [
        [(sample["atSeconds"], sample["replicas"]) for sample in result["service"]["samples"]]
        for result in (first, second)
    ]
    assert seen == [[(0, 1), (1, 2), (2, 3)], [(0, 3), (1, 4), (2, 5)]]


def test_progress_names_the_load_and_how_many_there_are() -> None:
    """A search runs one load after another, and does not know how many there will be."""
    now = {"done": 1, "failed": 0, "running": 2, "seconds": None, "elapsed": None, "ended": False}
    loads = (Load(concurrency=1, requests=4), Load(rate=2.0, duration=30.0))
    for searching, runs, numbers in (
        (False, (loads,), [(1, 2), (2, 2)]),
        (True, (loads[1:],) * 2, [(1, None), (2, None)]),
    ):
        shown: list[LoadProgress | str] = []
        watch = LoadWatch(shown.append, searching=searching)

        def run(settings: Settings, watch: LoadWatch = watch) -> list[Mapping[str, Any]]:
            for place, _ in enumerate(settings.loads):
                watch.report({**now, "load": place})
            return []

        for some in runs:
            watch.over(run, None)(replace(SETTINGS, loads=some))
        assert [(one.number, one.count) for one in shown if isinstance(one, LoadProgress)] == numbers
        last = shown[-1]
        assert isinstance(last, LoadProgress)
        assert (last.load["rate"], last.load["duration"], "requests" in last.load) == (2.0, 30.0, False)


def test_a_look_counts_at_its_end(looks: Looks, clock: Clock) -> None:
    """What it sees may be the effect of a load that began after it."""
    watch = LoadWatch(lambda _: None, every=0)

    def run(_: Settings) -> list[Mapping[str, Any]]:
        looks.await_begin()
        clock.sleep(2)
        looks.end()
        watch.report({"load": 0, "done": 1, "failed": 0, "running": 0, "seconds": 1, "elapsed": 1, "ended": True})
        return [{"durationSeconds": 1}]

    (result,) = watch.over(run, looks)(SETTINGS)
    assert [sample["atSeconds"] for sample in result["service"]["samples"]] == [1]


def test_nothing_to_look_at_and_a_load_without_an_answer() -> None:
    results: list[Mapping[str, Any]] = [{"durationSeconds": 0.0}]
    watch = LoadWatch(lambda _: None, every=0.01)
    assert watch.over(lambda _: results, None)(SETTINGS) == [{"durationSeconds": 0.0, "service": None}]
    assert watch.over(lambda _: results, LoadLook)(SETTINGS)[0]["service"] is None


@pytest.fixture
def metrics() -> Iterator[tuple[str, dict[str, str]]]:
    """A server's address with /v1, and what it answers by path."""
    answers: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = answers.get(self.path)
            self.send_response(200 if text else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", answers
        server.shutdown()


def test_vllms_metrics_beside_a_url(metrics: tuple[str, dict[str, str]]) -> None:
    url, answers = metrics
    target = Target(url, ("m",))
    assert url_look(target) is None
    answers["/metrics"] = "up 1\n"
    assert url_look(target) is None
    answers["/metrics"] = 'vllm:num_requests_running{engine="0"} 3\n'
    look = url_look(target)
    assert look is not None
    seen = look()
    assert seen.engine is not None
    assert (seen.engine.running, seen.replicas) == (3, None)
    del answers["/metrics"]
    (problem,) = look().problems
    assert "/metrics failed" in problem

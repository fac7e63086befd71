"""When a load ran, as this machine sees it, and the metrics of a server known by its address."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from rayllm_ctl.loadtest.settings import Load, Settings, Target
from rayllm_ctl.model.benchservice import Look
from rayllm_ctl.workflows.benchurl import url_look
from rayllm_ctl.workflows.benchwatch import Watch

SETTINGS = Settings(Target("http://x/v1", ("m",)), (Load(concurrency=1, requests=1),))


def test_each_load_has_what_was_seen_while_it_ran() -> None:
    passed: list[Mapping[str, Any]] = []
    watch = Watch(passed.append, every=0.01)
    replicas = iter(range(1, 1000))
    ran: list[tuple[float, float]] = []

    def run(_: Settings) -> list[Mapping[str, Any]]:
        time.sleep(0.05)
        for load in (0, 1):
            begin = time.monotonic()
            time.sleep(0.08)
            # The clock of a Job says nothing here; a line that comes late must not move the begin.
            now = {"load": load, "done": 1, "failed": 0, "running": 0}
            watch.report({**now, "seconds": None})
            watch.report({**now, "seconds": time.monotonic() - begin})
            watch.report({**now, "seconds": time.monotonic() - begin - 0.05})
            ran.append((begin, time.monotonic()))
        return [{"durationSeconds": end - begin, "name": place} for place, (begin, end) in enumerate(ran)]

    first, second = watch.over(run, lambda: Look(replicas=next(replicas)))(SETTINGS)
    assert (first["name"], second["name"], len(passed)) == (0, 1, 6)
    for result in (first, second):
        moments = [sample["at"] for sample in result["service"]["samples"]]
        assert len(moments) >= 2
        assert moments == sorted(moments)
        assert moments[-1] <= 0.1 + 0.1  # rounded
    ends = first["service"]["samples"][-1]["replicas"]
    begins = second["service"]["samples"][0]["replicas"]
    assert begins >= ends > 2


def test_a_look_counts_at_its_end() -> None:
    """What it sees may be the effect of a load that began after it."""
    watch = Watch(lambda _: None, every=0.01)

    def run(_: Settings) -> list[Mapping[str, Any]]:
        time.sleep(0.05)
        begin = time.monotonic()
        time.sleep(0.6)
        watch.report({"load": 0, "done": 1, "failed": 0, "running": 0, "seconds": time.monotonic() - begin})
        return [{"durationSeconds": time.monotonic() - begin}]

    def look() -> Look:
        time.sleep(0.3)
        return Look(replicas=1)

    (result,) = watch.over(run, look)(SETTINGS)
    assert result["service"]["samples"][0]["at"] >= 0.2


def test_nothing_to_look_at_and_a_load_without_an_answer() -> None:
    results: list[Mapping[str, Any]] = [{"durationSeconds": 0.0}]
    watch = Watch(lambda _: None, every=0.01)
    assert watch.over(lambda _: results, None)(SETTINGS) == [{"durationSeconds": 0.0, "service": None}]
    assert watch.over(lambda _: results, Look)(SETTINGS)[0]["service"] is None


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

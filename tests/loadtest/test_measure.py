"""Figures against those of a server that notes what it did, over real connections."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, quantiles
from typing import Any

import pytest

from rayllm_ctl.loadtest import connection, driver, session
from rayllm_ctl.loadtest.connection import Connection
from rayllm_ctl.loadtest.result import evenly
from rayllm_ctl.loadtest.samples import distribution, histogram
from rayllm_ctl.loadtest.session import measure, measure_load
from rayllm_ctl.loadtest.settings import Load, Objective, Settings, Target
from tests.loadtest.server import KnownServer, Steps, behaviour


@pytest.fixture(scope="module")
def server() -> Iterator[KnownServer]:
    with KnownServer() as running:
        yield running


@pytest.fixture
def clock(server: KnownServer, monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    take = Connection.data_received

    def data_received(one: Connection, data: bytes) -> None:
        assert one._transport is not None
        take(one, data)
        steps.received[one._transport.get_extra_info("sockname")[1]] += len(data)

    monkeypatch.setattr(Connection, "data_received", data_received)
    for module in (connection, driver, session):
        monkeypatch.setattr(module, "clock", steps.monotonic)
    monkeypatch.setattr(server, "steps", steps)
    return steps


def run(server: KnownServer, load: Load, objective: Objective | None = None, **how: Any) -> dict[str, Any]:
    server.written.clear()
    target, limits = Target(server.url, (behaviour(**how),)), objective or Objective()
    settings = Settings(target, (load,), objective=limits, stream="whole" not in how)
    (found,) = measure(settings, lambda _: None)
    return found


@pytest.mark.usefixtures("clock")
def test_times_are_those_of_the_server(server: KnownServer) -> None:
    found = run(server, Load(concurrency=1, requests=6), first=0.1, gap=0.03, tokens=8)
    latency = found["latencySeconds"]
    first = fmean(times[1] - times[0] for times in server.written)
    gaps = [after - before for times in server.written for before, after in pairwise(times[1:])]
    assert latency["ttft"]["mean"] == pytest.approx(first) == pytest.approx(0.1)
    assert latency["itl"]["mean"] == pytest.approx(fmean(gaps)) == pytest.approx(0.03)
    assert latency["tpot"]["mean"] == pytest.approx(fmean(gaps))
    whole = fmean(times[-1] - times[0] for times in server.written)
    assert latency["e2e"]["mean"] == pytest.approx(whole) == pytest.approx(0.1 + 7 * 0.03)
    assert found["requests"] == {"total": 6, "succeeded": 6, "failed": 0, "unfinished": 0}
    assert found["tokens"] == {"input": 42, "output": 48, "countedBy": "usage"}
    rate = found["throughput"]
    assert rate["requestsPerSecond"] == pytest.approx(6 / found["durationSeconds"])
    assert rate["outputTokensPerSecond"] == pytest.approx(48 / found["durationSeconds"])
    assert found["durationSeconds"] == pytest.approx(6 * whole)


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"status": 429}, "http_429"),
        ({"status": 401}, "http_401"),
        ({"end": "cut"}, "cut"),
        ({"end": "reset"}, "reset"),
        ({"end": "nothing"}, "reset"),
        ({"end": "silent"}, "timeout"),
        ({"answers": 0}, "timeout"),
        ({"malformed": True}, "malformed"),
        ({"event_error": True}, "error_event"),
        ({"whole": True, "body": "<html>"}, "malformed"),
        ({"end": "late_reset"}, None),
        ({"split": 2}, None),
        ({"whole": True}, None),
    ],
)
def test_what_goes_wrong_has_a_kind(
    server: KnownServer, clock: Steps, how: dict[str, Any], kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute passes where an answer never ends."""
    monkeypatch.setattr(server, "silent", lambda: clock.sleep(60))
    found = run(server, Load(concurrency=2, requests=3, timeout=60), **how)
    assert found["errors"] == ({kind: 3} if kind else {}), found["errorMessages"]
    assert found["requests"]["failed"] == (3 if kind else 0)


def test_a_server_that_is_not_there() -> None:
    (found,) = measure(Settings(Target("http://127.0.0.1:9/v1", ("m",)), (Load(rate=50, requests=5),)), lambda _: None)
    assert found["errors"] == {"connect": 5}
    assert found["latencySeconds"]["e2e"] is None


@pytest.mark.usefixtures("clock")
def test_several_chunks_in_one_packet_are_several_and_multibyte_text_is_whole(server: KnownServer) -> None:
    found = run(server, Load(concurrency=1, requests=1), tokens=2, together=3, gap=0.05)
    gaps = found["latencySeconds"]["itl"]
    assert (gaps["p50"], gaps["max"]) == (0, pytest.approx(0.05))
    assert gaps["mean"] == pytest.approx(0.05 / 5)


def test_an_open_loop_counts_from_when_a_request_was_due(server: KnownServer) -> None:
    """The client stands still for a third of a second, as when it gets no CPU."""
    load = Load(rate=100, arrivals="constant", duration=1.0)
    settings = Settings(Target(server.url, (behaviour(),)), (load,))

    async def stopped_for_a_while() -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.3, time.sleep, 0.33)
        return await measure_load(settings, load, lambda _: None, None, asyncio.Event())

    found = asyncio.run(stopped_for_a_while())
    assert found["requests"]["total"] == 100
    assert found["latencySeconds"]["e2e"]["max"] > 0.3
    assert found["latencySeconds"]["e2e"]["p90"] > 0.2
    assert found["generator"]["saturated"]
    assert found["generator"]["lateStartSeconds"]["max"] > 0.3


def test_warm_up_does_not_count_and_a_closed_loop_keeps_its_clients(server: KnownServer) -> None:
    """Nothing is answered before all three clients have asked."""
    before = len(server.bodies)
    found = run(server, Load(concurrency=3, requests=6, warmup=3, timeout=30), meet=3)
    assert found["requests"] == {"total": 6, "succeeded": 6, "failed": 0, "unfinished": 0}
    assert len(server.bodies) - before == 9


def test_a_load_that_is_stopped_has_the_figures_so_far(server: KnownServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped when both clients wait for an answer that never comes."""
    settings = Settings(Target(server.url, (behaviour(answers=4),)), (Load(concurrency=2, duration=60),))
    server.written.clear()

    async def stopped() -> dict[str, Any]:
        event, loop = asyncio.Event(), asyncio.get_running_loop()
        waiting = iter((lambda: None, lambda: loop.call_soon_threadsafe(event.set)))
        monkeypatch.setattr(server, "silent", lambda: next(waiting)())
        return await measure_load(settings, settings.loads[0], lambda _: None, None, event)

    found = asyncio.run(stopped())
    assert found["interrupted"] is True
    assert found["requests"] == {"total": 4, "succeeded": 4, "failed": 0, "unfinished": 2}


@pytest.mark.usefixtures("clock")
def test_goodput_is_of_requests_that_keep_every_limit(server: KnownServer) -> None:
    met = run(server, Load(concurrency=1, requests=2), Objective(ttft=2.0), first=0.01)["goodput"]
    assert (met["requests"], met["met"]) == (2, True)
    missed = run(server, Load(concurrency=1, requests=2), Objective(ttft=2.0, itl=0.01), gap=0.05)["goodput"]
    assert (missed["requests"], missed["met"], missed["requestsPerSecond"]) == (0, False, 0)


def test_keys_take_turns_and_are_no_part_of_settings(server: KnownServer) -> None:
    target = Target(server.url, (behaviour(),), keys=("sk-secret", "sk-other"))
    settings = Settings(target, (Load(concurrency=1, requests=3),), body={"temperature": 0.5})
    assert "sk-secret" not in json.dumps(settings.to_json()) + repr(settings)
    again = Settings.from_json(json.loads(json.dumps(settings.to_json())), keys=target.keys)
    assert again == settings
    measure(again, lambda _: None)
    sent = [re.findall(r"Authorization: Bearer (\S+)", head) for head in server.heads[-3:]]
    assert sent == [["sk-secret"], ["sk-other"], ["sk-secret"]]
    body = server.bodies[-1]
    assert (body["temperature"], body["stream_options"]) == (0.5, {"include_usage": True})


def test_measuring_works_in_a_thread(server: KnownServer) -> None:
    found: list[dict[str, Any]] = []
    settings = Settings(Target(server.url, (behaviour(),)), (Load(concurrency=1, requests=1),))
    thread = threading.Thread(target=lambda: found.extend(measure(settings, lambda _: None)))
    thread.start()
    thread.join(10)
    assert found[0]["requests"]["succeeded"] == 1


def test_percentiles_are_those_of_numpy() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6]
    found = distribution(values)
    assert found is not None
    hundredths = quantiles(values, n=100, method="inclusive")
    assert [found[f"p{n}"] for n in (50, 90, 95, 99)] == pytest.approx([hundredths[n - 1] for n in (50, 90, 95, 99)])
    assert [bar["count"] for bar in histogram([0.0, 0.1, 0.95, 1.0], 2)] == [2, 2]


@pytest.mark.usefixtures("clock")
def test_progress_says_which_load_and_since_when(server: KnownServer) -> None:
    target = Target(server.url, (behaviour(first=0.05, gap=0.0, tokens=1),))
    said: list[Any] = []
    first, second = measure(Settings(target, (Load(concurrency=1, requests=2), Load(rate=99, requests=1))), said.append)
    assert [one["load"] for one in said] == [0, 1]
    for progress, found in zip(said, (first, second), strict=True):
        assert progress["seconds"] == pytest.approx(found["durationSeconds"])
        assert progress["seconds"] > 0


def test_gaps_of_a_result_are_distributed_as_all_are() -> None:
    ordered = [value / 10 for value in range(5001)]
    some = evenly(ordered, 11)
    assert some == [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0, 500.0]
    assert evenly([1.0, 2.0], 11) == [1.0, 2.0]

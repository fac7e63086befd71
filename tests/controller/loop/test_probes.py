from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rayllm_ctl.controller.loop import probes as module
from rayllm_ctl.controller.loop.probes import ProbeAnswers, Probes
from rayllm_ctl.errors import UserError


@dataclass
class State:
    """What the probes are told."""

    unhealthy: str | None = None
    unready: str | None = None
    page: str = "up 1\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.001)


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def probes(state: State) -> Iterator[Probes]:
    answers = ProbeAnswers(lambda: state.unhealthy, lambda: state.unready, lambda: state.page)
    with Probes(("127.0.0.1", 0), answers) as running:
        yield running


def ask(port: int, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Type"]
    finally:
        connection.close()


def test_health_and_readiness_are_told_apart(probes: Probes, state: State) -> None:
    assert [ask(probes.port, path)[:2] for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
    state.unready = "not everything was listed yet"
    assert ask(probes.port, "/healthz")[:2] == (200, "ok\n")
    assert ask(probes.port, "/readyz?verbose")[:2] == (503, "not everything was listed yet\n")
    state.unhealthy, state.unready = "a worker has ended", None
    assert ask(probes.port, "/healthz")[:2] == (503, "a worker has ended\n")
    assert ask(probes.port, "/readyz")[:2] == (200, "ok\n")


def test_metrics_have_the_content_type_of_prometheus(probes: Probes) -> None:
    assert ask(probes.port, "/metrics") == (200, "up 1\n", "text/plain; version=0.0.4; charset=utf-8")


def test_other_paths_and_methods_are_rejected(probes: Probes) -> None:
    assert ask(probes.port, "/")[0] == 404
    assert ask(probes.port, "/metrics", "POST")[0] == 501
    assert ask(probes.port, "/metrics", "HEAD") == (200, "", "text/plain; version=0.0.4; charset=utf-8")


def test_a_connection_answers_several_requests(probes: Probes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", probes.port, timeout=30)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    sock = connection.sock
    connection.request("GET", "/readyz")
    assert connection.getresponse().read() == b"ok\n"
    assert connection.sock is sock
    connection.close()


def test_a_client_that_sends_nothing_does_not_keep_others_waiting(probes: Probes) -> None:
    with socket.create_connection(("127.0.0.1", probes.port)):
        assert ask(probes.port, "/healthz")[0] == 200


def test_a_page_that_fails_is_logged_without_its_values(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> str:
        raise KeyError("hf_token")

    with Probes(("127.0.0.1", 0), ProbeAnswers(lambda: None, lambda: None, fail)) as running:
        with pytest.raises(http.client.RemoteDisconnected):
            ask(running.port, "/metrics")
        assert ask(running.port, "/healthz")[0] == 200
    assert "a probe cannot be answered: internal error: KeyError in test_probes.py" in caplog.text
    assert "hf_token" not in caplog.text


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_without_an_address_both_families_are_served(state: State) -> None:
    answers = ProbeAnswers(lambda: state.unhealthy, lambda: state.unready, lambda: state.page)
    with Probes(("", 0), answers) as running:
        assert [ask(running.port, "/healthz", host=host)[0] for host in ("127.0.0.1", "::1")] == [200, 200]


def test_a_port_that_is_taken_is_an_error(probes: Probes) -> None:
    with pytest.raises(UserError) as caught:
        Probes(("127.0.0.1", probes.port), ProbeAnswers(lambda: None, lambda: None, lambda: ""))
    assert caught.value.message == f"cannot listen on 127.0.0.1:{probes.port}: Address already in use"


def test_leaving_closes_the_port(state: State) -> None:
    with Probes(("127.0.0.1", 0), ProbeAnswers(lambda: None, lambda: None, lambda: "")) as running:
        port = running.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)

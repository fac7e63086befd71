"""What of Serve's log the ingress leaves out."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from rayllm_ctl.serving.logs import GATEWAY, SERVE, ServeAccessLog, to_serve

ACCESS = {"serve_access_log": True}


@pytest.fixture
def written() -> Iterator[list[str]]:
    """The lines of Serve's log."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    serve, gateway, handler = logging.getLogger(SERVE), logging.getLogger(GATEWAY), Lines()
    filters, level, parent = list(serve.filters), serve.level, gateway.parent
    serve.addHandler(handler)
    serve.setLevel(logging.INFO)
    yield lines
    serve.removeHandler(handler)
    serve.filters, gateway.parent = filters, parent
    serve.setLevel(level)


def test_serve_logs_requests_where_no_gateway_does(written: list[str]) -> None:
    log, serve = ServeAccessLog(), logging.getLogger(SERVE)
    serve.info("POST /v1/completions 200 5.0ms", extra=ACCESS)
    serve.info("CALL report OK 1.0ms", extra=ACCESS)
    log.enabled = False
    serve.info("POST /v1/chat/completions 200 5.0ms", extra=ACCESS)
    serve.info("CALL report is not a request here")
    assert written == ["POST /v1/completions 200 5.0ms", "CALL report is not a request here"]


def test_lines_of_the_gateway_are_part_of_the_log(written: list[str]) -> None:
    ServeAccessLog().enabled = False
    to_serve(GATEWAY)
    logging.getLogger(f"{GATEWAY}.access").info("{}", extra=ACCESS)
    assert written == ["{}"]

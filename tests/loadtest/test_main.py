"""What a load test in a Job does before its first request."""

from __future__ import annotations

import socket
import threading
import time

from rayllm_ctl.loadtest.__main__ import wait_for_connection


def test_it_waits_until_the_server_takes_connections() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        later = threading.Timer(0.3, server.listen)
        begin = time.monotonic()
        later.start()
        wait_for_connection(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        assert 0.3 <= time.monotonic() - begin < 10
        server.settimeout(5)
        server.accept()[0].close()


def test_a_server_that_takes_none_is_left_to_the_load() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        wait_for_connection(f"http://127.0.0.1:{server.getsockname()[1]}/v1", seconds=0.5)
        assert 0.5 <= time.monotonic() - begin < 10

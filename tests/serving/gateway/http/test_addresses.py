"""The address that limits count by."""

from __future__ import annotations

import pytest

from rayllm_ctl.serving.gateway.http.addresses import client_address

PEER = ("10.0.0.9", 40000)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, [], "10.0.0.9"),
        (0, ["192.0.2.1"], "10.0.0.9"),
        (1, [], "10.0.0.9"),
        (1, ["192.0.2.1"], "192.0.2.1"),
        (1, ["203.0.113.5, 192.0.2.1"], "192.0.2.1"),
        (1, ["203.0.113.5", "192.0.2.1"], "192.0.2.1"),
        (2, ["203.0.113.5, 198.51.100.2,192.0.2.1"], "198.51.100.2"),
        (2, ["192.0.2.1"], "192.0.2.1"),
        (1, ["192.0.2.1:5060"], "192.0.2.1"),
        (1, ["unknown"], "10.0.0.9"),
        (1, [""], "10.0.0.9"),
        (1, ["2001:db8:1:2:3::4"], "2001:db8:1:2::/64"),
        (1, ["[2001:db8:1:2:ffff::4]:443"], "2001:db8:1:2::/64"),
        (1, ["fe80::1%eth0"], "fe80::/64"),
        (1, ["::ffff:192.0.2.1"], "192.0.2.1"),
    ],
)
def test_the_address_of_the_client(proxies: int, forwarded: list[str], address: str) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert client_address({"client": PEER, "headers": headers}, proxies) == address


def test_a_server_that_knows_no_address() -> None:
    assert client_address({"client": None, "headers": []}, 0) == "unknown"
    assert client_address({"client": ("testclient", 1), "headers": []}, 1) == "unknown"

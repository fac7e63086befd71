from __future__ import annotations

from pathlib import Path

import pytest
import urllib3

from rayllm_ctl.cluster.api.transport import Transport, pem, transport
from rayllm_ctl.errors import UsageError


def made(**cluster: object) -> Transport:
    return transport({"server": "https://10.0.0.1:6443/", **cluster}, "", "", lambda: "", "alice")


def test_the_server_has_no_slash_at_its_end() -> None:
    assert made().server == "https://10.0.0.1:6443"


def test_the_servers_certificate_is_checked_unless_the_kubeconfig_says_otherwise() -> None:
    assert made().pool.connection_pool_kw["ssl_context"].check_hostname
    assert not made(**{"insecure-skip-tls-verify": True}).pool.connection_pool_kw["ssl_context"].check_hostname


def test_another_name_may_be_expected_in_the_servers_certificate() -> None:
    settings = made(**{"tls-server-name": "api.example"}).pool.connection_pool_kw
    assert (settings["server_hostname"], settings["assert_hostname"]) == ("api.example", "api.example")


def proxy_of(found: Transport) -> str:
    proxy = found.pool.proxy if isinstance(found.pool, urllib3.ProxyManager) else None
    return proxy.host or "" if proxy else ""


@pytest.mark.parametrize(
    ("environment", "cluster", "proxy"),
    [
        ({}, {}, ""),
        ({"HTTPS_PROXY": "http://env:3128"}, {}, "env"),
        ({"HTTPS_PROXY": "http://env:3128", "NO_PROXY": "10.0.0.1"}, {}, ""),
        ({"HTTPS_PROXY": "http://env:3128"}, {"proxy-url": "http://own:3128"}, "own"),
    ],
)
def test_proxies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], cluster: dict[str, str], proxy: str
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(made(**cluster)) == proxy


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.parametrize("proxy", ["ftp://proxy", "socks5://proxy:1080"])
def test_proxies_that_cannot_be_used(proxy: str) -> None:
    with pytest.raises(UsageError):
        made(**{"proxy-url": proxy})


def test_the_login_of_a_proxy_is_sent_to_it_and_shown_to_nobody() -> None:
    pool = made(**{"proxy-url": "http://alice:p%40ss@proxy:3128"}).pool
    assert isinstance(pool, urllib3.ProxyManager)
    assert pool.proxy_headers["proxy-authorization"] == "Basic YWxpY2U6cEBzcw=="
    with pytest.raises(UsageError) as error:
        made(**{"proxy-url": "ftp://alice:secret@proxy"})
    assert "secret" not in error.value.message


def test_a_certificate_in_a_file_in_place_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    assert pem({"ca": str(tmp_path / "ca.crt")}, "ca", "x") == "PEM"
    assert pem({"ca-data": "UEVN", "ca": "ignored"}, "ca", "x") == "PEM"
    assert pem({}, "ca", "x") == ""


def test_an_authority_without_a_certificate() -> None:
    with pytest.raises(UsageError, match="holds no certificate"):
        made(**{"certificate-authority-data": "UEVN"})

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api.credentials import Issued
from rayllm_ctl.cluster.api.transport import Transport, from_kubeconfig
from rayllm_ctl.errors import ClusterError, UsageError
from tests.cluster.api.test_credentials import credential, plugin


def made(user: Mapping[str, object] | None = None, /, **cluster: object) -> Transport:
    server = {"server": "https://10.0.0.1:6443/", **cluster}
    return from_kubeconfig(server, user or {}, Issued(), 'user "alice"')


def test_the_server_has_no_slash_at_its_end() -> None:
    assert made().server == "https://10.0.0.1:6443"


def test_the_servers_certificate_is_checked_unless_the_kubeconfig_says_otherwise() -> None:
    assert made().pool.connection_pool_kw["ssl_context"].check_hostname
    skips = made(**{"insecure-skip-tls-verify": True}).pool.connection_pool_kw
    assert not skips["ssl_context"].check_hostname
    assert (skips["ssl_context"].verify_mode, skips["cert_reqs"]) == (ssl.CERT_NONE, ssl.CERT_NONE)


def proxy_of(found: Transport) -> str:
    proxy = found.pool.proxy if isinstance(found.pool, urllib3.ProxyManager) else None
    return proxy.host or "" if proxy else ""


ENVIRONMENT = {"HTTPS_PROXY": "http://env:3128"}


@pytest.mark.parametrize(
    ("environment", "cluster", "proxy"),
    [
        ({}, {}, ""),
        (ENVIRONMENT, {}, "env"),
        (ENVIRONMENT | {"NO_PROXY": "10.0.0.1"}, {}, ""),
        (ENVIRONMENT | {"NO_PROXY": "example.com, 10.0.0.0/8"}, {}, ""),
        (ENVIRONMENT | {"NO_PROXY": "10.0.0.2,.0.0.1.example"}, {}, "env"),
        (ENVIRONMENT | {"NO_PROXY": "*"}, {}, ""),
        (ENVIRONMENT, {"proxy-url": "http://own:3128"}, "own"),
        ({"NO_PROXY": "*"}, {"proxy-url": "http://own:3128"}, "own"),
        ({"ALL_PROXY": "socks5://env:1080"}, {}, ""),
        ({"HTTP_PROXY": "http://env:3128"}, {}, ""),
        ({"HTTP_PROXY": "http://env:3128"}, {"server": "http://10.0.0.1"}, "env"),
    ],
)
def test_proxies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], cluster: dict[str, str], proxy: str
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(made(**cluster)) == proxy


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.parametrize("proxy", ["ftp://proxy", "socks5://proxy:1080", "http://proxy:port"])
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


def test_empty_values_are_those_that_are_not_set(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(UsageError, match="certificate-authority"):
        made(**{"certificate-authority-data": "", "certificate-authority": str(tmp_path / "ca.crt")})
    user = {"token": "", "username": "alice", "password": 12345, "client-certificate-data": ""}
    assert made(user).authorization() == "Basic YWxpY2U6MTIzNDU="


@pytest.mark.parametrize("content", ["UEVN", "gICA"], ids=["text", "bytes"])
def test_an_authority_without_a_certificate(content: str) -> None:
    with pytest.raises(UsageError, match=r"certificate-authority of https://10.0.0.1:6443 cannot be used: not PEM"):
        made(**{"certificate-authority-data": content})


class Keys:
    """An authority, a server's certificate for 127.0.0.1 and api.example, and a client's, each with its key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Nothing of the machine's own configuration: Python 3.13 rejects an authority without a key usage.
        self.path("openssl.cnf").write_text("[req]\ndistinguished_name = names\n[names]\n")
        authority = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        identified = ("-addext", "subjectKeyIdentifier=hash")
        self._openssl("req", "-x509", *self._new("ca"), "-subj", "/CN=ca", "-days", "2", *authority, *identified)
        self._issue("server", "-addext", "subjectAltName=IP:127.0.0.1,DNS:api.example")
        self._issue("client")

    def path(self, name: str) -> Path:
        return self._folder / name

    def data(self, name: str) -> str:
        return self._openssl("base64", "-A", "-in", str(self.path(name)))

    def _new(self, name: str) -> tuple[str, ...]:
        key, certificate = str(self.path(f"{name}.key")), str(self.path(f"{name}.crt"))
        configured = ("-config", str(self.path("openssl.cnf")))
        return (*configured, "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate)

    def _issue(self, name: str, *options: str) -> None:
        authority = ("-CA", str(self.path("ca.crt")), "-CAkey", str(self.path("ca.key")))
        identified = ("-addext", "authorityKeyIdentifier=keyid")
        self._openssl(
            "req", "-x509", *authority, *self._new(name), "-subj", f"/CN={name}", "-days", "2", *identified, *options
        )

    def _openssl(self, *arguments: str) -> str:
        return subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@contextmanager
def https(keys: Keys) -> Iterator[int]:
    """The port of a server that says which client's certificate a connection has come with. None is reused."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            subject: Any = self.connection.getpeercert()
            body = json.dumps({"gitVersion": subject["subject"][0][0][1]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.path("server.crt"), keys.path("server.key"))
    context.load_verify_locations(keys.path("ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def proxy_server(keys: Keys | None, seen: list[str]) -> Iterator[int]:
    """The port of a proxy that connects to where it is asked to; with `keys` it speaks TLS itself."""
    listening = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if keys:
        context.load_cert_chain(keys.path("server.crt"), keys.path("server.key"))

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def serve(plain: socket.socket) -> None:
        client = context.wrap_socket(plain, server_side=True) if keys else plain
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(4096)
        seen.append(request.decode())
        host, _, port = request.split()[1].decode().rpartition(":")
        target = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=copy, args=(target, client), daemon=True).start()
        copy(client, target)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listening:
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def config(path: Path, cluster: Mapping[str, object], user: Mapping[str, object]) -> Path:
    content = {
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "alice", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "alice"}}],
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def in_place(keys: Keys) -> dict[str, str]:
    return {"client-certificate-data": keys.data("client.crt"), "client-key-data": keys.data("client.key")}


def test_a_client_certificate_whose_key_is_on_no_disk_afterwards(keys: Keys, tmp_path: Path, temporary: Path) -> None:
    with https(keys) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": keys.data("ca.crt")}
        reached = connect(str(config(tmp_path / "config", cluster, in_place(keys))))
        assert list(temporary.iterdir()) == []
        assert [reached.server_version() for _ in range(2)] == ["client", "client"]
        assert list(temporary.iterdir()) == []


def test_a_client_certificate_of_files_and_another_name_of_the_server(keys: Keys, tmp_path: Path) -> None:
    with https(keys) as port:
        cluster = {"server": f"https://localhost:{port}", "certificate-authority": str(keys.path("ca.crt"))}
        user = {
            "client-certificate": str(keys.path("client.crt")),
            "client-key": str(keys.path("client.key")),
        }
        with pytest.raises(ClusterError, match="certificate is not trusted"):
            connect(str(config(tmp_path / "config", cluster, user))).server_version()
        named = connect(str(config(tmp_path / "config", cluster | {"tls-server-name": "api.example"}, user)))
        assert named.server_version() == "client"


def test_a_client_certificate_of_a_plugin(keys: Keys, tmp_path: Path, temporary: Path) -> None:
    certificate, key = (keys.path(name).read_text() for name in ("client.crt", "client.key"))
    (tmp_path / "answer").write_text(credential(clientCertificateData=certificate, clientKeyData=key)[6:-1])
    user = plugin(tmp_path, f"cat {tmp_path}/answer")
    with https(keys) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": keys.data("ca.crt")}
        assert connect(str(config(tmp_path / "config", cluster, user))).server_version() == "client"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_client_certificate_through_a_proxy(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(keys.path("ca.crt")))  # what the proxy is trusted by
    seen: list[str] = []
    with https(keys) as port, proxy_server(keys if scheme == "https" else None, seen) as proxy:
        cluster = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority-data": keys.data("ca.crt"),
            "proxy-url": f"{scheme}://alice:secret@127.0.0.1:{proxy}",
        }
        reached = connect(str(config(tmp_path / "config", cluster, in_place(keys) | {"as": "bob"})))
        assert reached.server_version() == "client"
        connection = reached.connection()  # for a port that is forwarded
        connection.request("GET", "/version")
        assert b"client" in connection.getresponse().data
        connection.close()
    assert [request.split()[:2] for request in seen] == [["CONNECT", f"127.0.0.1:{port}"]] * 2
    assert all("proxy-authorization: Basic YWxpY2U6c2VjcmV0" in request for request in seen)
    assert not any("bob" in request for request in seen)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"client-certificate-data": "ca.crt"}, 'certificate or key of user "alice" of the kubeconfig cannot be used'),
        ({"certificate-authority-data": "ca.key"}, "certificate-authority of https://127.0.0.1:1 cannot be used"),
    ],
)
def test_what_cannot_be_used_leaves_no_key(
    keys: Keys, tmp_path: Path, temporary: Path, other: dict[str, str], problem: str
) -> None:
    data = {key: keys.data(name) for key, name in other.items()}
    cluster = {"server": "https://127.0.0.1:1", **{key: data[key] for key in data if "authority" in key}}
    with pytest.raises(UsageError, match=problem):
        connect(str(config(tmp_path / "config", cluster, in_place(keys) | data)))
    assert list(temporary.iterdir()) == []


def test_a_command_that_reaches_nobody_leaves_no_key(keys: Keys, tmp_path: Path, temporary: Path) -> None:
    file = config(tmp_path / "config", {"server": "https://127.0.0.1:1"}, in_place(keys))
    command = [sys.executable, "-m", "rayllm_ctl", "status", "--kubeconfig", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert list(temporary.iterdir()) == []

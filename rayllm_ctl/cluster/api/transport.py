"""HTTP connections to one API server, with the TLS settings and credentials of a kubeconfig's context.

urllib3 and the standard library do all that is needed of the official client here; importing that one takes longer than
a whole command may.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from urllib3 import PoolManager

_VIEW = "kubectl config view --minify"

POOL = 32
"""Connections that are kept: more requests at once than this would log a warning of urllib3's for each."""

_PROBES = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds of silence before the first probe and between probes, and how many: an idle proxy must not let a watch hang
for ever. Names of the socket module; an operating system may lack some."""


@dataclass(frozen=True)
class Transport:
    """Where requests go and with what. `authorization` is asked before each request; empty: no such header.

    certificate: the client certificate as PEM text, empty if there is none.
    """

    server: str
    pool: PoolManager
    authorization: Callable[[], str]
    certificate: str = ""

    def connection(self) -> Any:
        """A new connection (of http.client's kind) for what is not a request with an answer, through the proxy if any.

        urllib3 offers none in public; its pools make them, with all that they know of TLS and proxies.
        """
        pool = self.pool.connection_from_url(self.server)
        connection = pool._new_conn()
        if pool.proxy is not None and pool.scheme == "https":
            pool._prepare_proxy(connection)
        else:
            connection.connect()
        return connection


def transport(
    cluster: Mapping[str, Any], certificate: str, key: str, authorization: Callable[[], str], who: str
) -> Transport:
    """A Transport to `cluster`, a kubeconfig's entry with absolute paths.

    certificate, key: the client's, as PEM text; empty if there is none. who: the user, for messages.
    UsageError for certificates, keys and proxies that cannot be used.
    """
    server = str(cluster["server"]).rstrip("/")
    settings: dict[str, Any] = {"maxsize": POOL, "socket_options": list(_socket_options())}
    if server.startswith("https:"):
        settings["ssl_context"] = _tls(cluster, certificate, key, who)
        if cluster.get("tls-server-name"):
            settings["server_hostname"] = settings["assert_hostname"] = str(cluster["tls-server-name"])
    return Transport(server, _pool(server, cluster, settings), authorization, certificate)


def pem(entry: Mapping[str, Any], name: str, what: str) -> str:
    """A certificate or key of a kubeconfig's entry, in place (`<name>-data`) or in a file; empty if there is none."""
    try:
        if entry.get(f"{name}-data"):
            return base64.b64decode(str(entry[f"{name}-data"]), validate=True).decode()
        return Path(str(entry[name])).read_text() if entry.get(name) else ""
    except OSError as error:
        raise UsageError(f"{name} of {what}: {entry[name]} cannot be read: {error.strerror}", hint=_VIEW) from error
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UsageError(f"{name}-data of {what} is not base64 of PEM text", hint=_VIEW) from error


def _tls(cluster: Mapping[str, Any], certificate: str, key: str, who: str) -> ssl.SSLContext:
    authority = pem(cluster, "certificate-authority", f"cluster {cluster['server']}")
    try:
        context = ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(f"certificate-authority of {cluster['server']} holds no certificate", hint=_VIEW) from error
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        with _file(certificate) as certificate_file, _file(key) as key_file:
            try:
                context.load_cert_chain(certificate_file, key_file)
            except (ssl.SSLError, OSError) as error:
                raise UsageError(f"the client certificate or key of {who} cannot be used", hint=_VIEW) from error
    return context


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """A file that only this user can read, for as long as OpenSSL, which takes no text, needs to read it."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        Path(path).unlink()


def _pool(server: str, cluster: Mapping[str, Any], settings: Mapping[str, Any]) -> PoolManager:
    import urllib3

    if cluster.get("insecure-skip-tls-verify"):
        # It is set in the kubeconfig; a warning on every request says nothing new.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    proxy = str(cluster.get("proxy-url") or _proxy_of_environment(server))
    if not proxy:
        return urllib3.PoolManager(**settings)
    # Not printed in errors: the URL may hold a password.
    try:
        if proxy.startswith("socks"):
            from urllib3.contrib.socks import SOCKSProxyManager

            return SOCKSProxyManager(proxy, **settings)
        login = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
        return urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)
    except ImportError as error:
        raise UsageError(
            f"the proxy for {server} is a SOCKS proxy, which needs PySocks", hint="pip install PySocks"
        ) from error
    except (ValueError, urllib3.exceptions.HTTPError) as error:
        raise UsageError(f"the proxy for {server} is not a valid URL", hint=_VIEW) from error


def _proxy_of_environment(server: str) -> str:
    """What HTTPS_PROXY, HTTP_PROXY and NO_PROXY say for `server`."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    parts = urlsplit(server)
    if proxy_bypass(parts.netloc):
        return ""
    return getproxies().get(parts.scheme, "")


def _socket_options() -> Iterator[tuple[int, int, int]]:
    yield socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    yield socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
    for name, value in _PROBES:
        if hasattr(socket, name):
            yield socket.IPPROTO_TCP, getattr(socket, name), value

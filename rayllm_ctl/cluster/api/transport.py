"""HTTP connections to one API server, made by the official client for a kubeconfig's context or in a pod.

The official client costs 130 ms to import, so it is imported only when a cluster is contacted.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment

from rayllm_ctl.cluster.api.credentials import Issued
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from kubernetes.client import Configuration
    from urllib3 import PoolManager

_VIEW = "kubectl config view --minify"

_CONNECTIONS = 32
"""Size of the connection pool: urllib3 logs a warning for each parallel request beyond it."""

_CERTIFICATE_KEYS = ("client-certificate", "client-certificate-data", "client-key", "client-key-data")
_CLUSTER_KEYS = ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url")


@dataclass(frozen=True)
class Transport:
    """Address and credentials of requests. `authorization` is called before each request; empty: no such header.

    certificate: the client certificate as PEM text, empty if there is none.
    """

    server: str
    pool: PoolManager
    authorization: Callable[[], str]
    certificate: str = ""

    def connection(self) -> Any:
        """A new connection (of http.client) for protocols other than request and response, through the proxy if any.

        urllib3 has no public API for this; its pools make connections with their settings for TLS and proxies.
        """
        pool = self.pool.connection_from_url(self.server)
        connection = pool._new_conn()
        if pool.proxy is not None and pool.scheme == "https":
            pool._prepare_proxy(connection)
        else:
            connection.connect()
        return connection


def from_kubeconfig(cluster: Mapping[str, Any], user: Mapping[str, Any], issued: Issued, who: str) -> Transport:
    """A Transport to `cluster` as `user`, entries of a kubeconfig with absolute paths.

    issued: credentials from the user's plugin. Its token is not used here, as it changes. who: the user, for messages.
    UsageError for certificates, keys and proxies that cannot be used.
    """
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config_from_dict

    configuration = Configuration(connection_pool_maxsize=_CONNECTIONS)
    content = {
        "current-context": "chosen",
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
        "clusters": [{"name": "chosen", "cluster": _cluster_entry(cluster)}],
        "users": [{"name": "chosen", "user": _user_entry(user, issued)}],
    }
    # The client writes certificates and the key to files, and removes them when Python exits normally. That may
    # be days later, or never.
    with TemporaryDirectory(prefix="rayllm-ctl-") as folder:
        try:
            load_kube_config_from_dict(
                content, client_configuration=configuration, persist_config=False, temp_file_path=folder
            )
        except ConfigException as error:
            raise _unusable(f"a certificate or key of {who} or its cluster", str(error)) from error
        except binascii.Error as error:
            raise _unusable(f"a certificate or key of {who} or its cluster", "not valid base64") from error
        _set_proxy(configuration, str(cluster.get("proxy-url") or ""))
        return _transport(configuration, who)


def from_service_account(who: str) -> Transport:
    """A Transport with the service account of the pod that this runs in. UsageError if it cannot be used."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration(connection_pool_maxsize=_CONNECTIONS)
    try:
        load_incluster_config(configuration)
    except (ConfigException, OSError) as error:
        raise no_service_account(error) from error
    _set_proxy(configuration, "")
    transport = _transport(configuration, who)

    def authorization() -> str:
        try:
            return transport.authorization()
        except (ConfigException, OSError) as error:  # the token is read repeatedly
            raise no_service_account(error) from error

    return Transport(transport.server, transport.pool, authorization)


def no_service_account(error: Exception) -> UsageError:
    """The error for an incomplete service account."""
    return UsageError(f"the pod's service account cannot be used: {error}", hint="name a kubeconfig in KUBECONFIG")


def _cluster_entry(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster entry for the official client, without empty values, which it would treat as set, unlike kubectl."""
    entry: dict[str, Any] = {key: str(cluster[key]) for key in _CLUSTER_KEYS if cluster.get(key)}
    return {**entry, "insecure-skip-tls-verify": bool(cluster.get("insecure-skip-tls-verify"))}


def _user_entry(user: Mapping[str, Any], issued: Issued) -> dict[str, str]:
    """The user entry for the official client: without plugins, whose errors it hides, token files, which it reads only
    once, and OpenID Connect, for which it would change the kubeconfig.
    """
    entry = {key: str(user[key]) for key in _CERTIFICATE_KEYS if user.get(key)}
    if issued.certificate:
        for key, text in (("client-certificate-data", issued.certificate), ("client-key-data", issued.key)):
            entry[key] = base64.b64encode(text.encode()).decode()
    if user.get("token"):
        entry["token"] = str(user["token"]).strip()
    if user.get("username"):
        entry |= {"username": str(user["username"]), "password": str(user.get("password", ""))}
    return entry


def _set_proxy(configuration: Configuration, own: str) -> None:
    """Choose the proxy as kubectl does: the kubeconfig's for any server, else that of the environment.

    The official client would apply NO_PROXY to the former as well, read ALL_PROXY for the latter, and not send a login.
    """
    import urllib3

    configuration.proxy = own or getproxies_environment().get(urlsplit(configuration.host).scheme)
    if own:
        configuration.no_proxy = None
    # Not shown in errors: the URL may contain a password.
    try:
        login = urllib3.util.parse_url(configuration.proxy or "").auth
    except urllib3.exceptions.HTTPError as error:
        raise _bad_proxy(configuration) from error
    if login and not configuration.proxy.startswith("socks"):  # these send it by themselves
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=unquote(login))


def _bad_proxy(configuration: Configuration) -> UsageError:
    return UsageError(f"the proxy for {configuration.host} is not a valid URL", hint=_VIEW)


def _transport(configuration: Configuration, who: str) -> Transport:
    tls, certificate = _read_tls(configuration, who) if configuration.host.startswith("https:") else (None, "")
    pool = _pool(configuration)
    if tls:
        pool.connection_pool_kw["ssl_context"] = tls

    def authorization() -> str:
        return (configuration.get_api_key_with_prefix("BearerToken") or "").strip()

    return Transport(configuration.host, pool, authorization, certificate)


def _read_tls(configuration: Configuration, who: str) -> tuple[ssl.SSLContext, str]:
    """The TLS settings of `configuration` and the client certificate. Afterwards it refers to no files:
    urllib3 would read them for each connection, and they will be removed.
    """
    certificate = ""
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    except OSError as error:
        raise _unusable(f"certificate-authority of {configuration.host}", _why(error)) from error
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file:
        try:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
            certificate = Path(configuration.cert_file).read_text()
        except OSError as error:
            raise _unusable(f"the client certificate or key of {who}", _why(error)) from error
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    return context, certificate


def _why(error: OSError) -> str:
    return "not PEM, or not a matching pair" if isinstance(error, ssl.SSLError) else str(error.strerror)


def _unusable(what: str, why: str) -> UsageError:
    return UsageError(f"{what} cannot be used: {why}", hint=_VIEW)


def _pool(configuration: Configuration) -> PoolManager:
    import urllib3
    from kubernetes.client import ApiClient

    if not configuration.verify_ssl:
        # It is set in the kubeconfig; a warning on every request is of no use.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    configuration.keep_alive = True  # a dead proxy must not make a watch hang forever
    try:
        pool: PoolManager = ApiClient(configuration).rest_client.pool_manager
    except ImportError as error:
        raise UsageError(
            f"the proxy for {configuration.host} is a SOCKS proxy, which needs PySocks", hint="pip install PySocks"
        ) from error
    except (ValueError, urllib3.exceptions.HTTPError) as error:
        raise _bad_proxy(configuration) from error
    return pool

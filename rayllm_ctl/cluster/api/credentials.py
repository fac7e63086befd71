"""Credentials of a kubeconfig's user, their renewal and expiry."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rayllm_ctl.cluster.api.errors import shortened
from rayllm_ctl.errors import ClusterError, UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.text.problems import quoted

_EARLY = timedelta(minutes=1)
"""A token is renewed this long before it expires, so that none expires during a request."""

_PATIENCE = 3.0
"""Seconds after which the user is notified of a slow credential plugin."""

_FILE_TOKEN_LIFE = timedelta(minutes=1)
"""How long a token read from a file is used: projected service account tokens are replaced in place."""


@dataclass(frozen=True)
class Issued:
    """Credentials from a source. `certificate` and `key` are PEM text; `until` None: no known expiry."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """How long a plugin may take, in seconds (None: no limit), and the callback for a slow one."""

    limit: float | None = 30.0
    notify: Callable[[str], None] = lambda _message: None


class Source:
    """Renewable credentials. Thread-safe: watches renew them concurrently."""

    def __init__(self, ask: Callable[[], Issued]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._issued: Issued | None = None

    def get(self) -> Issued:
        """The current credentials, renewed before they expire."""
        with self._lock:
            issued = self._issued
            if issued is None or (issued.until and issued.until - _EARLY <= datetime.now(UTC)):
                issued = self._issued = self._ask()
            return issued


def source(
    user: Mapping[str, Any], name: str, cluster: Mapping[str, Any], waiting: Waiting = Waiting()
) -> Source | None:
    """The source of a user with a plugin or a token file; None if the kubeconfig contains the credentials."""
    plugin, token_file = user.get("exec"), user.get("tokenFile")
    if plugin is not None and not isinstance(plugin, Mapping):
        raise UsageError(
            f"user {quoted(name)} of the kubeconfig: exec is not a mapping", hint="kubectl config view --minify"
        )
    if token_file:
        return Source(lambda: _from_file(Path(str(token_file)), name))
    if plugin is not None:
        return Source(lambda: _from_plugin(plugin, name, cluster, waiting))
    provider = user.get("auth-provider")
    if isinstance(provider, Mapping) and provider.get("name") == "oidc":
        return Source(lambda: _from_oidc(provider, name))
    if isinstance(provider, Mapping):
        raise UsageError(
            f"user {quoted(name)} of the kubeconfig uses auth-provider {quoted(str(provider.get('name')))}, "
            "which is not supported",
            hint="renew the kubeconfig with the tool of your cloud: it configures an exec plugin instead",
        )
    return None


def _from_file(file: Path, name: str) -> Issued:
    try:
        token = file.read_text().strip()
    except OSError as error:
        raise UsageError(
            f"token file {file} of user {quoted(name)} cannot be read: {error.strerror}", hint=f"ls -l {file}"
        ) from error
    return Issued(token=token, until=datetime.now(UTC) + _FILE_TOKEN_LIFE + _EARLY)


def _from_oidc(provider: Mapping[str, Any], name: str) -> Issued:
    """The ID token that kubectl keeps in the kubeconfig of an OpenID Connect user; only kubectl renews it."""
    config = provider.get("config")
    token = str(config.get("id-token") or "") if isinstance(config, Mapping) else ""
    end = token_end(token)
    if not token or (end is not None and end <= datetime.now(UTC)):
        raise UsageError(
            f"the ID token of user {quoted(name)} in the kubeconfig {'has expired' if token else 'is missing'}",
            hint="kubectl get namespaces    # kubectl renews the token",
        )
    return Issued(token=token)


def _from_plugin(plugin: Mapping[str, Any], name: str, cluster: Mapping[str, Any], waiting: Waiting) -> Issued:
    """Run an exec plugin with the client authentication protocol (client.authentication.k8s.io)."""
    command = str(plugin.get("command") or "")
    terminal = sys.stdin is not None and sys.stdin.isatty()  # it may be closed
    interactive = terminal and plugin.get("interactiveMode") != "Never"
    info: dict[str, Any] = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential"}
    info["spec"] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        known = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        info["spec"]["cluster"] = {key: cluster[key] for key in known if key in cluster}
    try:
        extra = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
    except (TypeError, KeyError) as error:
        raise UsageError(
            f"user {quoted(name)} of the kubeconfig: exec.env is not a list of name and value",
            hint="kubectl config view --minify",
        ) from error
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    what = f"the credential plugin {quoted(command)} of user {quoted(name)}"
    try:
        process = subprocess.Popen(
            [command, *map(str, plugin.get("args") or ())],
            env=environment, stdin=None if interactive else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE, text=True, start_new_session=not interactive,
        )  # fmt: skip
    except OSError as error:
        hint = str(plugin.get("installHint") or f"install {command}, or renew the kubeconfig")
        raise ClusterError(f"{what} could not be started: {error.strerror}", hint=hint) from error
    # An interactive plugin may wait for the user's login.
    printed, complaint = _finish(process, what, replace(waiting, limit=None) if interactive else waiting)
    if process.returncode != 0:
        said = f": {shortened(complaint.strip(), 400)}" if complaint else ""
        raise ClusterError(
            f"{what} failed with exit code {process.returncode}{said}",
            hint="log in again",
        )
    try:
        status = json.loads(printed)["status"]
        until = _time(status["expirationTimestamp"]) if status.get("expirationTimestamp") else None
        issued = Issued(
            str(status.get("token") or ""), str(status.get("clientCertificateData") or ""),
            str(status.get("clientKeyData") or ""), until,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterError(f"{what} printed no ExecCredential", hint=f"run it by hand: {command}") from error
    if not issued.token and not (issued.certificate and issued.key):
        raise ClusterError(f"{what} returned neither a token nor a certificate", hint="log in again")
    return issued


def _finish(process: subprocess.Popen[str], what: str, waiting: Waiting) -> tuple[str, str]:
    """Standard output and standard error of a plugin. ClusterError if it takes too long."""
    first = _PATIENCE if waiting.limit is None else min(_PATIENCE, waiting.limit)
    try:
        try:
            return process.communicate(timeout=first)
        except subprocess.TimeoutExpired:
            waiting.notify(f"waiting for {what}")
        return process.communicate(timeout=None if waiting.limit is None else waiting.limit - first)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise ClusterError(
            f"{what} did not answer within {format_duration(waiting.limit or 0)}",
            hint=("run it by hand to see what it waits for", "a slow one may need a larger --request-timeout"),
        ) from error
    except KeyboardInterrupt:
        _end(process)
        raise


def _end(process: subprocess.Popen[str]) -> None:
    """Stop a plugin, and its child processes if it leads its own process group: it may be a script."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ended(certificate: str, authorization: str) -> str | None:
    """A message on the expired credential in use; None if none has expired, or the expiry is unknown.

    certificate: PEM text. authorization: the header's value. Its token is only read for its expiry, a JWT's `exp`.
    """
    now = datetime.now(UTC)
    end = certificate_end(certificate)
    if end and end < now:
        return f"the client certificate expired on {end:%Y-%m-%d %H:%M} UTC"
    end = token_end(authorization.rpartition(" ")[2])
    if end and end < now:
        return f"the token expired on {end:%Y-%m-%d %H:%M} UTC"
    return None


def token_end(token: str) -> datetime | None:
    """The expiry of a JWT (RFC 7519, `exp`); None for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, binascii.Error):
        return None


def certificate_end(pem: str) -> datetime | None:
    """The expiry of the first certificate in `pem` (X.509 notAfter, RFC 5280 section 4.1); None if unreadable."""
    body = pem.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END CERTIFICATE-----")[0]
    try:
        der = base64.b64decode("".join(body.split()))
        _, certificate, _ = _element(der, 0)
        _, position, _ = _element(der, certificate)
        tag, _, end = _element(der, position)
        if tag == 0xA0:  # the version, which v1 certificates omit
            position = end
        for _ in ("serialNumber", "signature", "issuer"):
            position = _element(der, position)[2]
        _, validity, _ = _element(der, position)
        _, _, not_after = _element(der, validity)
        tag, start, end = _element(der, not_after)
        text = der[start:end].decode("ascii")
        return datetime.strptime(text, "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (ValueError, IndexError, binascii.Error):
        return None


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the DER element at `at`."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    return der[at], start, start + length

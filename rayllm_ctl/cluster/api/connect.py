"""From a kubeconfig, or the service account of a pod, to a Cluster. Nothing is asked of the API server here."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.cluster.api import credentials
from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.kubeconfig import Chosen, choose, find_files
from rayllm_ctl.cluster.api.transport import pem, transport
from rayllm_ctl.errors import UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token, certificate authority and namespace."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    request_timeout: float = 30.0,
    notify: Callable[[str], None] = lambda _message: None,
) -> Cluster:
    """The cluster of a kubeconfig's context, or of the pod that this runs in when there is no kubeconfig.

    request_timeout: seconds that one request may take; 0 is without limit. notify: receives a line about what
    a connection waits for.

    Raises UsageError (the kubeconfig is missing or wrong, or has no such context) and ClusterError (its credential
    plugin failed). Whether the API server answers shows at the first request.
    """
    files = find_files(kubeconfig)
    if files:
        return _from_kubeconfig(choose(files, context), request_timeout, notify)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        if context:
            raise UsageError(f"there is no kubeconfig to look up context {context!r} in", hint="--kubeconfig PATH")
        return _from_service_account(request_timeout)
    raise UsageError(
        "there is no kubeconfig: ~/.kube/config does not exist and KUBECONFIG is not set",
        hint=("--kubeconfig PATH", "export KUBECONFIG=PATH"),
    )


def _from_kubeconfig(chosen: Chosen, request_timeout: float, notify: Callable[[str], None]) -> Cluster:
    who = f"user {chosen.user_name!r} of the kubeconfig"
    waiting = credentials.Waiting(request_timeout or None, notify)
    source = credentials.source(chosen.user, chosen.user_name, chosen.cluster, waiting)
    issued = source.get() if source else credentials.Issued()
    certificate = issued.certificate or pem(chosen.user, "client-certificate", who)
    key = issued.key or pem(chosen.user, "client-key", who)
    return Cluster(
        transport(chosen.cluster, certificate, key, _authorization(chosen.user, source), who),
        context=chosen.context, user=chosen.user_name, namespace=chosen.namespace,
        request_timeout=request_timeout, headers=_impersonation(chosen.user),
    )  # fmt: skip


def _authorization(user: Mapping[str, Any], source: credentials.Source | None) -> Callable[[], str]:
    """The Authorization header of a kubeconfig's user, as it is now."""
    fixed = ""
    if user.get("token"):
        fixed = f"Bearer {str(user['token']).strip()}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        fixed = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def current() -> str:
        token = source.get().token if source else ""
        return f"Bearer {token}" if token else fixed

    return current


def _from_service_account(request_timeout: float) -> Cluster:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise UsageError(
            f"the pod's service account cannot be used: {error}", hint="name a kubeconfig in KUBECONFIG"
        ) from error
    cluster = {"server": server, "certificate-authority": str(SERVICE_ACCOUNT / "ca.crt")}
    user = {"tokenFile": str(SERVICE_ACCOUNT / "token")}
    who = "the pod's service account"
    source = credentials.source(user, who, cluster)
    return Cluster(
        transport(cluster, "", "", _authorization(user, source), who), context="", user=who,
        namespace=namespace or "default", request_timeout=request_timeout,
    )  # fmt: skip


def _impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers of a kubeconfig user's `as`, without which requests would have other rights."""
    headers = [("Impersonate-User", str(user["as"]))] if user.get("as") else []
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return headers

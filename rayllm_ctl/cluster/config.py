"""From a kubeconfig, or the service account of a pod, to a Cluster. Nothing is asked of the API server here."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.cluster import credentials
from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.kubeconfig import Chosen, choose, find_files
from rayllm_ctl.errors import UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token, certificate authority and namespace."""

POOL = 32
"""Connections that are kept: more requests at once than this would log a warning of urllib3's for each."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    request_timeout: float = 30.0,
    notify: Callable[[str], None] = lambda _message: None,
) -> Cluster:
    """The cluster of a kubeconfig's context, or of the pod that this runs in when there is no kubeconfig.

    request_timeout: seconds that one request may take; 0 is without limit. notify: is told what a connection waits for.
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
    waiting = credentials.Waiting(request_timeout or None, notify)
    source = credentials.source(chosen.user, chosen.user_name, chosen.cluster, waiting)
    user = {key: value for key, value in chosen.user.items() if key not in ("exec", "tokenFile")}
    issued = source.get() if source else credentials.Issued()
    if issued.token or user.get("token"):
        user["token"] = issued.token or str(user["token"]).strip()
    if issued.certificate:
        user["client-certificate-data"] = base64.b64encode(issued.certificate.encode()).decode()
        user["client-key-data"] = base64.b64encode(issued.key.encode()).decode()

    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_kube_config_from_dict

    configuration = Configuration()
    finished = {
        "current-context": chosen.context,
        "contexts": [{"name": chosen.context, "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": dict(chosen.cluster)}],
        "users": [{"name": "user", "user": user}],
    }
    try:
        load_kube_config_from_dict(finished, client_configuration=configuration, persist_config=False)
    except (ConfigException, binascii.Error, OSError) as error:
        raise UsageError(
            f"context {chosen.context!r} of the kubeconfig cannot be used: {error}",
            hint=f"kubectl config view --minify --context {chosen.context}",
        ) from error
    if source and issued.token:

        def renew(current: Any) -> None:
            current.api_key["BearerToken"] = f"Bearer {source.get().token}"

        configuration.refresh_api_key_hook = renew
    _finish(configuration)
    try:
        client = ApiClient(configuration)
    except ImportError as error:
        raise UsageError(
            f"proxy-url of context {chosen.context!r} names a SOCKS proxy, which needs PySocks",
            hint="pip install PySocks",
        ) from error
    return Cluster(
        client, context=chosen.context, user=chosen.user_name, namespace=chosen.namespace,
        request_timeout=request_timeout, headers=_impersonation(chosen.user),
    )  # fmt: skip


def _from_service_account(request_timeout: float) -> Cluster:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except (ConfigException, OSError) as error:
        raise UsageError(f"the pod's service account cannot be used: {error}", hint="--kubeconfig PATH") from error
    _finish(configuration)
    return Cluster(
        ApiClient(configuration), context="", user="the pod's service account", namespace=namespace or "default",
        request_timeout=request_timeout,
    )  # fmt: skip


def _finish(configuration: Any) -> None:
    configuration.keep_alive = True  # an idle proxy must not let a watch hang for ever
    configuration.connection_pool_maxsize = POOL
    if not configuration.verify_ssl:
        import urllib3

        # insecure-skip-tls-verify is the user's word; a warning on every request says nothing new.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


def _impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers of a kubeconfig user's `as`, which the client library ignores (it would act with other rights)."""
    headers = [("Impersonate-User", str(user["as"]))] if user.get("as") else []
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return headers

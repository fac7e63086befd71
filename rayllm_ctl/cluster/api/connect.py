"""From a kubeconfig, or the service account of a pod, to a Cluster. Sends no requests to the API server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.cluster.api import credentials
from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.kubeconfig import Chosen, choose, find_files
from rayllm_ctl.cluster.api.transport import Transport, from_kubeconfig, from_service_account, no_service_account
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.problems import quoted

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The directory of a pod's service account token, certificate authority and namespace."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    request_timeout: float = 30.0,
    notify: Callable[[str], None] = lambda _message: None,
    acting_as: tuple[str, tuple[str, ...]] | None = None,
    kubeconfig_from: str = "--kubeconfig",
) -> Cluster:
    """The cluster of a kubeconfig's context, or of the pod that this runs in when there is no kubeconfig.

    request_timeout: seconds that one request may take; 0 is without limit. notify: called with a line about
    the reason of a delay. acting_as: a user and groups to impersonate, instead of those of the kubeconfig.
    kubeconfig_from: what named `kubeconfig`, for messages.

    Raises UsageError (the kubeconfig is missing or wrong, or has no such context) and ClusterError (its credential
    plugin failed). Does not check whether the API server answers.
    """
    files = find_files(kubeconfig, kubeconfig_from)
    if files:
        return _from_kubeconfig(choose(files, context), request_timeout, notify, acting_as)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        if context:
            raise UsageError(
                f"there is no kubeconfig to look up context {quoted(context)} in", hint="--kubeconfig PATH"
            )
        return _from_service_account(request_timeout, acting_as)
    raise UsageError(
        "there is no kubeconfig: ~/.kube/config does not exist and KUBECONFIG is not set",
        hint=("--kubeconfig PATH", "export KUBECONFIG=PATH"),
    )


def _from_kubeconfig(
    chosen: Chosen,
    request_timeout: float,
    notify: Callable[[str], None],
    acting_as: tuple[str, tuple[str, ...]] | None,
) -> Cluster:
    waiting = credentials.Waiting(request_timeout or None, notify)
    source = credentials.source(chosen.user, chosen.user_name, chosen.cluster, waiting)
    issued = source.get() if source else credentials.Issued()
    fixed = from_kubeconfig(chosen.cluster, chosen.user, issued, f"user {quoted(chosen.user_name)} of the kubeconfig")

    def authorization() -> str:
        token = source.get().token if source else ""
        return f"Bearer {token}" if token else fixed.authorization()

    return Cluster(
        Transport(fixed.server, fixed.pool, authorization, fixed.certificate), context=chosen.context,
        user=chosen.user_name, namespace=chosen.namespace, request_timeout=request_timeout,
        headers=_impersonation(chosen.user if acting_as is None else _user(*acting_as)),
    )  # fmt: skip


def _from_service_account(request_timeout: float, acting_as: tuple[str, tuple[str, ...]] | None) -> Cluster:
    who = "the pod's service account"
    transport = from_service_account(who)
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise no_service_account(error) from error
    return Cluster(
        transport, context="", user=who, namespace=namespace or "default", request_timeout=request_timeout,
        headers=_impersonation(_user(*acting_as)) if acting_as is not None else [],
    )  # fmt: skip


def _user(name: str, groups: tuple[str, ...]) -> dict[str, Any]:
    """A user as a kubeconfig names one to impersonate."""
    return {"as": name, "as-groups": groups}


def _impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The impersonation headers for `as` of a kubeconfig user.

    The official client does not support impersonation.
    """
    headers = [("Impersonate-User", str(user["as"]))] if user.get("as") else []
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return headers

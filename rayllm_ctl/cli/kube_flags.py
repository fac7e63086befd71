"""Flags for cluster and namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.option_groups import gathered
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.frozen import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class KubeFlags:
    """Cluster and namespace; None: from the kubeconfig."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    request_timeout: float


API_TIMEOUT = 30.0
"""Seconds for a request to the API server."""


def kube_options(function: F) -> F:
    """--kubeconfig, --context, -n and --request-timeout, handed over as `kube: KubeFlags`."""
    timeout = click.option(
        "--request-timeout",
        type=Duration(),
        default=f"{API_TIMEOUT:.0f}s",
        show_default=True,
        help="Timeout of a single request.",
    )
    return cluster_options(timeout(function), timeout="request_timeout")


def cluster_options(function: F, timeout: str | None = None) -> F:
    """--kubeconfig, --context and -n, handed over as `kube: KubeFlags`. timeout: the name of another one's value."""
    options = (
        click.option("-n", "--namespace", help="Namespace; that of the context by default."),
        click.option("--kubeconfig", help="Path to the kubeconfig file; KUBECONFIG or ~/.kube/config by default."),
        click.option("--context", help="Kubeconfig context; the current context by default."),
    )
    parameters = ("kubeconfig", "context", "namespace", *((timeout,) if timeout else ()))

    def flags(values: Mapping[str, Any]) -> KubeFlags:
        seconds = values[timeout] if timeout else API_TIMEOUT
        return KubeFlags(
            kubeconfig=values["kubeconfig"],
            context=values["context"],
            namespace=values["namespace"],
            request_timeout=seconds,
        )

    return gathered(function, options, parameters, "kube", flags)

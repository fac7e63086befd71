"""Flags for cluster and namespace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rayllm_ctl.cli.option_groups import gathered
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class KubeFlags:
    """Cluster and namespace; None: from the kubeconfig. user, groups: to act as, instead of those of the kubeconfig."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    request_timeout: float
    user: str | None = None
    groups: tuple[str, ...] = ()


API_TIMEOUT = 30.0
"""Seconds for a request to the API server."""

_PARAMETERS = ("kubeconfig", "context", "namespace", "user", "groups", "request_timeout")


def kube_options(function: F) -> F:
    """The flags for cluster and namespace, handed over as `kube: KubeFlags`."""
    options = (
        click.option("-n", "--namespace", help="Namespace; that of the context by default."),
        click.option("--kubeconfig", help="Path to the kubeconfig file; KUBECONFIG or ~/.kube/config by default."),
        click.option("--context", help="Kubeconfig context; the current context by default."),
        click.option("--as", "user", metavar="USER", help="User to act as, or system:serviceaccount:NAMESPACE:NAME."),
        click.option("--as-group", "groups", multiple=True, metavar="GROUP", help="Group of --as. Can be repeated."),
        click.option(
            "--request-timeout",
            type=Duration(),
            default=f"{API_TIMEOUT:.0f}s",
            show_default=True,
            help="Timeout of a single request.",
        ),
    )
    return gathered(function, options, _PARAMETERS, "kube", _flags)


def given_cluster_flags(but: Collection[str] = ()) -> list[str]:
    """The flags for cluster and namespace on the command line, except for the parameters `but`."""
    ctx = click.get_current_context()
    names = [name for name in _PARAMETERS if name not in but]
    return [
        param.opts[0]
        for param in ctx.command.params
        if param.name in names and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]


def reject_cluster_flags(instead: str, *, but: Collection[str] = ()) -> None:
    """Raise UsageError for flags for the cluster beside `instead`, which asks none. but: parameters with an effect."""
    given = given_cluster_flags(but)
    if given:
        raise UsageError(
            f"{instead} asks no cluster: {', '.join(given)} cannot be combined with it",
            hint=f"remove {' '.join(given)}",
        )


def _flags(values: Mapping[str, Any]) -> KubeFlags:
    if values["groups"] and values["user"] is None:
        raise UsageError("--as-group requires --as", hint="--as USER --as-group GROUP")
    return KubeFlags(**values)

"""`controller`: the process that keeps services as their LLMService objects say."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Literal

import click

from rayllm_ctl.cli.kube_flags import API_TIMEOUT, KubeFlags
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError


class _Listen(click.ParamType[tuple[str, int]]):
    """[ADDRESS]:PORT, an IPv6 address in brackets."""

    name = "[address]:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not port.isdecimal() or int(port) > 65535 or (":" in bare and bare == host):
            self.fail(f'"{value}" is not [ADDRESS]:PORT, such as :8080 or 127.0.0.1:8080', param, ctx)
        return bare, int(port)


@click.command(cls=Command, short_help="Keep services as their LLMService objects say.")
@click.option(
    "-n",
    "--namespace",
    multiple=True,
    help="Namespace of the objects; that of the pod or context by default. Can be repeated.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Objects that are reconciled at the same time.",
)
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Reconcile only while holding the Lease rayllm-controller, so that a second process waits.",
)
@click.option("--lease-namespace", metavar="NAMESPACE", help="Namespace of the Lease; that of the pod by default.")
@click.option(
    "--listen",
    type=_Listen(),
    metavar="[ADDRESS]:PORT",
    default=":8080",
    show_default=True,
    help="Where /healthz, /readyz and /metrics are served.",
)
@click.option(
    "--offline/--hub",
    default=True,
    show_default=True,
    help="Plan with the catalog alone, or ask the Hugging Face Hub for other models.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on standard error.",
)
@click.option("--kubeconfig", help="Path to the kubeconfig file; that of KUBECONFIG, or the pod's service account.")
@click.option("--context", help="Kubeconfig context; the current context by default.")
@click.pass_context
def command(
    ctx: click.Context,
    namespace: tuple[str, ...],
    all_namespaces: bool,
    workers: int,
    leader_election: bool,
    lease_namespace: str | None,
    listen: tuple[str, int],
    offline: bool,
    log_format: Literal["text", "json"],
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Keep services and batch jobs as their LLMService and BatchJob objects say, until SIGTERM.

    It runs in the cluster, where the chart rayllm-operator installs it: one process reconciles, and others wait for the
    Lease. It exits with an error if it cannot renew the Lease within 10 seconds, so that Kubernetes starts it again.

    \b
      rayllm-ctl controller --all-namespaces --log-format json
      rayllm-ctl controller -n llm --no-leader-election --listen 127.0.0.1:8080
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.controller.loop.log import log_to
    from rayllm_ctl.controller.loop.run import ControllerOptions, run_controller
    from rayllm_ctl.controller.parts import make_parts
    from rayllm_ctl.controller.types import Scope

    if all_namespaces and namespace:
        raise UsageError("--namespace and --all-namespaces exclude each other")
    if lease_namespace and not leader_election:
        raise UsageError("--lease-namespace is for the Lease, which --no-leader-election does without")

    flags = KubeFlags(kubeconfig=kubeconfig, context=context, namespace=None, request_timeout=API_TIMEOUT)
    own = connect(flags).namespace
    options = ControllerOptions(
        scope=Scope(() if all_namespaces else tuple(dict.fromkeys(namespace)) or (own,), offline),
        workers=workers,
        listen=listen,
        lease_namespace=(lease_namespace or own) if leader_election else None,
    )
    log_to(sys.stderr, log_format)
    ctx.exit(
        run_controller(
            options, lambda seconds: connect(replace(flags, request_timeout=seconds or API_TIMEOUT)), make_parts
        )
    )

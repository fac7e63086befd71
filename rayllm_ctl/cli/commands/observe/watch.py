"""`watch`: a service's state and autoscaling as they change."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import STREAM_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration


@click.command(cls=Command, short_help="Follow a service's state and autoscaling.")
@click.argument("name")
@click.option("--timeout", type=Duration(), help="Stop after this long (default: never).")
@output_option(*STREAM_FORMATS)
@kube_options
@click.pass_context
def command(ctx: click.Context, name: str, timeout: float | None, output: str | None, kube: KubeFlags) -> None:
    """Follow the state and replicas of service NAME, and the causes of a wait. Ends with Ctrl-C or --timeout.

    \b
      rayllm-ctl watch qwen3-32b -n llm
      rayllm-ctl watch qwen3-32b -n llm --timeout 10m -o json
    """
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.observe.wait import follow

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    with show(ctx, output, followed=(name, namespace)) as display:
        for event in follow(cluster, name, namespace, timeout):
            display.handle(event)

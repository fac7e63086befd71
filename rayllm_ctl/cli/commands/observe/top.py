"""`top`: the load of a service's replicas."""

from __future__ import annotations

import sys

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration


@click.command(cls=Command, short_help="Print the load of a service's replicas.")
@click.argument("name")
@click.option("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--interval", type=Duration(), default="2s", show_default=True, help="Time between two readings.")
@output_option(*TABLE_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context, name: str, watch: bool, interval: float, output: str | None, kube: KubeFlags
) -> None:  # fmt: skip
    """Print the load of the replicas of service NAME: running and waiting requests, tokens per second, KV cache, GPUs.

    Tokens per second need two readings. Ray reports the metrics of a RayService's replicas every 10 s: they are up to
    10 s old, rates are averages over 10 s, and the command may take 15 s. vLLM's own servers (mode raycluster) are
    asked directly. An unknown value is "-", with the reason on standard error.

    GPU is the mean utilization of the GPUs of the replica's pod, GPU-MEMORY their memory together. With --watch and
    -o json each reading is a line.

    \b
      rayllm-ctl top qwen3-32b
      rayllm-ctl top qwen3-32b --watch --interval 10s
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document, print_line
    from rayllm_ctl.cli.session import connect, live_view
    from rayllm_ctl.console.observe.blocks import BlockDisplay
    from rayllm_ctl.console.observe.top import load_table
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.workflows.observe.top import follow_load, load_once

    if interval <= 0:
        raise click.UsageError("--interval must be greater than 0")
    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    color = ctx.meta.get("rayllm.color", "auto")
    errors = Printer.for_error(color)
    live = live_view(ctx) and output not in MACHINE_FORMATS
    with BlockDisplay(Printer.on(sys.stdout, color), errors, live) as display:
        if not watch:
            load = load_once(cluster, name, namespace, interval, errors.line)
            if output in MACHINE_FORMATS:
                print_document("ServiceLoad", load, output)
            else:
                click.echo(load_table(load), nl=False)
            display.note(load.problems)
            return
        for load in follow_load(cluster, name, namespace, interval):
            if output in MACHINE_FORMATS:
                print_line("ServiceLoad", load, output)
            else:
                display.draw(load_table(load))
            display.note(load.problems)

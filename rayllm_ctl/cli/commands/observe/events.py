"""`events`: the Kubernetes events of a service."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="List the Kubernetes events of a service.")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Stream new events until Ctrl-C.")
@output_option(*TABLE_FORMATS)
@kube_options
@click.pass_context
def command(ctx: click.Context, name: str, follow: bool, output: str | None, kube: KubeFlags) -> None:
    """List the events of service NAME and its RayClusters, pods, services and claims, oldest first.

    Repeated events are one line with a count. If status derives a cause from an event, its line shows the cause.
    With -f and -o json each event is a line.

    \b
      rayllm-ctl events qwen3-32b -n llm
      rayllm-ctl events qwen3-32b -n llm -f
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_line, print_list
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.console.observe.events import EventLines
    from rayllm_ctl.workflows.observe.events import events_of, follow_events

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    shown = EventLines(printer(ctx))
    parts = follow_events(cluster, name, namespace) if follow else [events_of(cluster, name, namespace)]
    for events in parts:
        if output in MACHINE_FORMATS and not follow:
            print_list("EventList", events, output)
        elif output in MACHINE_FORMATS:
            for event in events:
                print_line("Event", event, output)
        else:
            for line in shown.lines(events, datetime.now(UTC)):
                click.echo(line)
            if not events:
                click.echo(f"no events of {name}", err=True)

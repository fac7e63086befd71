"""`status`: the health of a service and its causes; without a name all services."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options, reject_cluster_flags
from rayllm_ctl.cli.options import NAMED_TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration


@click.command(cls=Command, short_help="Show the health of a service, with causes.")
@click.argument("name", required=False)
@click.option(
    "--from",
    "bundle",
    type=click.Path(path_type=Path, exists=True),
    help="Read a recorded bundle, a folder or .tar.gz, instead of a cluster; NAME is that of the bundle by default.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List the services of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Show it again when it changes, until Ctrl-C or --timeout.")
@click.option("--timeout", type=Duration(), help="Stop --watch after this long (default: never).")
@output_option(*NAMED_TABLE_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str | None,
    bundle: Path | None,
    all_namespaces: bool,
    watch: bool,
    timeout: float | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Show the health of service NAME, its causes and next steps; without NAME list the services of the namespace.

    The list is based on the services' objects. Ray Serve itself is asked only if NAME is given.
    Exits with 1 when service NAME is Degraded, Failed, Stuck, Unknown or not found.

    --watch shows the same output: on a terminal it is redrawn in place, elsewhere it is printed with the time whenever
    more than ages has changed; with -o json each change is a line. When --timeout ends it, the exit code is that of
    the last state, and Ctrl-C ends it with 130. The command watch prints events instead: a line for each thing that
    happened.

    \b
      rayllm-ctl status
      rayllm-ctl status qwen3-32b -n llm
      rayllm-ctl status qwen3-32b --watch
      rayllm-ctl status qwen3-32b --from qwen3-32b.tar.gz
    """
    if timeout is not None and not watch:
        raise click.UsageError("--timeout requires --watch")
    if watch and (bundle is not None or output == "name"):
        other = "--from" if bundle is not None else "-o name"
        raise click.UsageError(f"--watch and {other} cannot be combined")
    if watch:
        from rayllm_ctl.cli.commands.observe.status_watch import watch_all, watch_one

        if name is not None and all_namespaces:
            raise click.UsageError("-A lists services and excludes NAME")
        if name is None:
            watch_all(ctx, all_namespaces, timeout, output, kube)
        else:
            watch_one(ctx, name, timeout, output, kube)
        return
    if name is not None or bundle is not None:
        if all_namespaces:
            raise click.UsageError("-A lists services and excludes NAME and --from")
        _one(ctx, name, bundle, output, kube)
        return
    _list(ctx, all_namespaces, output, kube)


def _one(ctx: click.Context, name: str | None, bundle: Path | None, output: str | None, kube: KubeFlags) -> None:
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_document
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.observe import status

    if bundle is not None:
        reject_cluster_flags("--from", but=("namespace",))
        row = status.from_bundle(bundle, name, kube.namespace)
    else:
        assert name is not None
        cluster = connect(kube)
        row = status.one_service(cluster, name, kube.namespace or cluster.namespace)
    health, name, namespace = row.health, row.name, row.namespace
    if output == "name":
        click.echo(object_name(row.kind, name))
    elif output in MACHINE_FORMATS:
        print_document("ServiceStatus", health, output, name=name, namespace=namespace)
    else:
        from rayllm_ctl.console.observe.status import service_status

        style = printer(ctx)
        style.text(service_status(name, namespace, health, style))
    ctx.exit(0 if health.state in status.HEALTHY_STATES else 1)


def _list(ctx: click.Context, all_namespaces: bool, output: str | None, kube: KubeFlags) -> None:
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_list
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.observe import status

    cluster = connect(kube)
    rows = status.all_services(cluster, None if all_namespaces else kube.namespace or cluster.namespace)
    if output == "name":
        for row in rows:
            click.echo(object_name(row.kind, row.name))
    elif output in MACHINE_FORMATS:
        print_list("ServiceStatusList", rows, output)
    else:
        from rayllm_ctl.console.observe.status import service_table

        style = printer(ctx)
        style.text(service_table(rows, style, namespaces=all_namespaces, wide=output == "wide"))
        if rows:
            click.echo("based on the objects' status; rayllm-ctl status NAME asks Ray Serve as well", err=True)

"""`status`: how a service is and why; all services without a name."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.options import KubeFlags, kube_options, output_option


@click.command(short_help="Say how a service is and why.")
@click.argument("name", required=False)
@click.option(
    "--from",
    "bundle",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Read a recorded bundle instead of a cluster.",
)
@output_option("json", "yaml", "name")
@kube_options
@click.pass_context
def command(ctx: click.Context, name: str | None, bundle: Path | None, output: str | None, kube: KubeFlags) -> None:
    """Say how service NAME is, why, and what to do; without NAME list the services of the namespace.

    Exits with 1 when the service is Degraded, Failed, Stuck, Unknown or not found.
    """
    from rayllm_ctl.cli.session import connect, print_data, printer
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows import status

    if name is None:
        if bundle is not None:
            raise click.UsageError("--from needs the NAME of a service")
        cluster = connect(kube)
        rows = status.all_services(cluster, kube.namespace or cluster.namespace)
        if output == "name":
            for row in rows:
                click.echo(f"rayservice.ray.io/{row.name}")
        elif output:
            print_data(to_json(rows), output)
        else:
            from rayllm_ctl.console.status import service_table

            click.echo(service_table(rows, printer(ctx)), nl=False)
        return
    if bundle is not None:
        namespace, health = kube.namespace or "default", status.from_bundle(bundle, name, kube.namespace or "default")
    else:
        cluster = connect(kube)
        namespace = kube.namespace or cluster.namespace
        health = status.one_service(cluster, name, namespace)
    if output == "name":
        click.echo(f"rayservice.ray.io/{name}")
    elif output:
        print_data({"name": name, "namespace": namespace, **to_json(health)}, output)
    else:
        from rayllm_ctl.console.status import service_status

        click.echo(service_status(name, namespace, health, printer(ctx)), nl=False)
    ctx.exit(0 if health.state in status.WELL else 1)

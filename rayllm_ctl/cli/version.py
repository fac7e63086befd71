"""`version`: ours, the cluster's, KubeRay's."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kubeflags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option
from rayllm_ctl.errors import UserError


@click.command(short_help="Print the versions of rayllm-ctl, the cluster and KubeRay.")
@click.option("--client", is_flag=True, help="Only rayllm-ctl's own; no cluster is asked.")
@output_option("json", "yaml")
@kube_options
def command(client: bool, output: str | None, kube: KubeFlags) -> None:
    """Print the versions of rayllm-ctl, of the cluster's API server and of the KubeRay operator in it."""
    from rayllm_ctl.cli.session import connect, print_data
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.versions import versions

    own = versions(None)
    if output is None:
        click.echo(f"rayllm-ctl  {own.rayllm_ctl}")
    try:
        found = own if client else versions(connect(kube))
    except UserError as error:
        if output:
            print_data(to_json(own), output)
        raise UserError(
            f"the versions of the cluster and of KubeRay are unknown: {error.message}",
            hint=(*error.hints, "rayllm-ctl version --client    # asks no cluster"),
            exit_code=error.exit_code,
        ) from error
    if output:
        print_data(to_json(found), output)
    elif not client:
        click.echo(f"Kubernetes  {found.kubernetes or 'unknown'}")
        click.echo(f"KubeRay     {found.kuberay or 'not found'} (tested with {', '.join(found.tested_kuberay)})")

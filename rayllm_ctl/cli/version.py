"""`version`: ours, the cluster's, KubeRay's."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kubeflags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option


@click.command(short_help="Print the versions of rayllm-ctl, the cluster and KubeRay.")
@click.option("--client", is_flag=True, help="Only rayllm-ctl's own; no cluster is asked.")
@output_option("json", "yaml")
@kube_options
def command(client: bool, output: str | None, kube: KubeFlags) -> None:
    """Print the versions of rayllm-ctl, of the cluster's API server and of the KubeRay operator in it."""
    from rayllm_ctl.cli.session import connect, print_data
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.versions import versions

    found = versions(None if client else connect(kube))
    if output:
        print_data(to_json(found), output)
        return
    click.echo(f"rayllm-ctl  {found.rayllm_ctl}")
    if not client:
        click.echo(f"Kubernetes  {found.kubernetes or 'unknown'}")
        click.echo(f"KubeRay     {found.kuberay or 'not found'} (tested with {', '.join(found.tested_kuberay)})")

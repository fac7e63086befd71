"""`serve-config`: the Serve configuration of a live service."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, name="serve-config", short_help="Print the Serve configuration of a service.")
@click.argument("name")
@kube_options
def command(name: str, kube: KubeFlags) -> None:
    """Print the Serve configuration of service NAME as a file that `deploy --serve-config` and `serve deploy` take.

    \b
      rayllm-ctl serve-config text-ml > config.yaml
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.model.text.yaml_text import dump
    from rayllm_ctl.workflows.access.serve_config import live_config

    cluster = connect(kube)
    click.echo(dump(live_config(cluster, name, kube.namespace or cluster.namespace)), nl=False)

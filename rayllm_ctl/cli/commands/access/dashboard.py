"""`dashboard`: Ray's dashboard of a service in a browser."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Forward Ray's dashboard of a service to this machine.")
@click.argument("name")
@click.option("--port", type=click.IntRange(0, 65535), default=8265, show_default=True, help="Local port; 0: any free.")
@click.option("--open", "browse", is_flag=True, help="Open it in the web browser.")
@kube_options
def command(name: str, port: int, browse: bool, kube: KubeFlags) -> None:
    """Forward Ray's dashboard of service NAME to a port of this machine, until Ctrl-C.

    Requests go through the API server with the kubeconfig's credentials, and with Ray's token if it requires one.
    Every user of this machine can reach the port while the command runs.

    \b
      rayllm-ctl dashboard qwen3-32b -n llm --open
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.access.dashboard import forwarder

    cluster = connect(kube)
    with forwarder(cluster, name, kube.namespace or cluster.namespace, port) as server:
        click.echo(server.url)
        if browse:
            click.launch(server.url)
        server.serve_forever()

"""`port-forward`: the OpenAI-compatible API of a service at a port of this machine."""

from __future__ import annotations

import threading

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Forward a port of this machine to the OpenAI-compatible API of a service.")
@click.argument("name")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Local port; 0: any free.")
@kube_options
def command(name: str, port: int, kube: KubeFlags) -> None:
    """Forward a port of this machine to the OpenAI-compatible API of service NAME, until Ctrl-C. Prints its base URL.

    Each new connection goes to a pod that is ready then, so forwarding continues when pods restart and during upgrades.
    kubectl port-forward chooses one pod, and ends with it. While no pod is ready, requests are answered with 503.

    Of a Serve configuration without models the URL of each application is printed.

    Connections go through the API server with the kubeconfig's credentials. Every user of this machine can reach the
    port while the command runs; an API key, if the service requires one, has to come from the client.

    \b
      rayllm-ctl port-forward qwen3-32b
      OPENAI_BASE_URL=http://127.0.0.1:8000/v1 python client.py
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.access.port_forward import forward_api, how_it_answers

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    with forward_api(cluster, name, namespace, port, lambda line: click.echo(line, err=True)) as local:
        if local.has_models:
            click.echo(local.url)
            click.echo(how_it_answers(local), err=True)
        else:
            for application, url in local.applications.items():
                click.echo(url)
                if len(local.applications) > 1:
                    click.echo(f"application {application}: {url}", err=True)
        _until_interrupted()


def _until_interrupted() -> None:
    threading.Event().wait()

"""`endpoint`: where a service answers."""

from __future__ import annotations

import click

from rayllm_ctl.cli.options import KubeFlags, kube_options, output_option


@click.command(short_help="Print the OpenAI-compatible address of a service.")
@click.argument("name")
@output_option("json", "yaml")
@kube_options
def command(name: str, output: str | None, kube: KubeFlags) -> None:
    """Print the OpenAI-compatible address of service NAME; fails while it does not serve.

    \b
      export OPENAI_BASE_URL=$(rayllm-ctl endpoint qwen3-32b)
    """
    from rayllm_ctl.cli.session import connect, print_data
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.chat import endpoint

    cluster = connect(kube)
    where = endpoint(cluster, name, kube.namespace or cluster.namespace)
    if output:
        print_data(to_json(where), output)
    else:
        click.echo(where.url)

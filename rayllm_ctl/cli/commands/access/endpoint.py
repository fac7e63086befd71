"""`endpoint`: the addresses of a service."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Print the OpenAI-compatible address of a service.")
@click.argument("name")
@click.option(
    "--external", is_flag=True, help="Print the URL for clients outside the cluster; fails if there is none yet."
)
@output_option("json", "yaml")
@kube_options
def command(name: str, external: bool, output: str | None, kube: KubeFlags) -> None:
    """Print the OpenAI-compatible address of service NAME; fails while it does not serve. The models are in -o json.

    Of a Serve configuration without models the address of each application is printed.

    The address is for clients in the cluster. Those of spec.exposure are listed on standard error, with the reason why
    one cannot be used yet.

    \b
      export OPENAI_BASE_URL=$(rayllm-ctl endpoint qwen3-32b)
      curl $(rayllm-ctl endpoint qwen3-32b --external)/models
    """
    from rayllm_ctl.cli.documents import print_document
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.errors import UsageError
    from rayllm_ctl.model.observed.external import format_external
    from rayllm_ctl.model.text.json_form import to_json
    from rayllm_ctl.workflows.access import endpoint as workflow
    from rayllm_ctl.workflows.access.chat import NoModelsError, endpoint

    cluster = connect(kube)
    try:
        where = endpoint(cluster, name, kube.namespace or cluster.namespace)
    except NoModelsError as error:
        if external:
            raise UsageError("--external prints the address of an OpenAI-compatible API, and there is none") from error
        found_applications = workflow.applications(error.service)
        if output:
            print_document("ApplicationEndpoints", found_applications, output)
            return
        for application, url in found_applications.applications.items():
            click.echo(url)
            if len(found_applications.applications) > 1:
                click.echo(f"application {application}: {url}", err=True)
        return
    where, found = workflow.external(cluster, where)
    url = workflow.external_url(where, found) if external else where.url
    if output:
        print_document("Endpoint", to_json(where) | to_json(found), output)
        return
    click.echo(url)
    if where.key_required:
        click.echo(f'requires an API key: curl -H "Authorization: Bearer $KEY" {url}/models', err=True)
    if not external:
        for line in (*(f"external  {format_external(one)}" for one in found.external), *found.notes):
            click.echo(line, err=True)

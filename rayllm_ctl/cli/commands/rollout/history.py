"""`history`: the revisions of a service, with author and outcome."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="List the revisions of a service.")
@click.argument("name")
@click.option("--revision", type=click.IntRange(min=1), metavar="N", help="Print the manifests of revision N.")
@output_option(*TABLE_FORMATS)
@kube_options
def command(name: str, revision: int | None, output: str | None, kube: KubeFlags) -> None:
    """List the revisions of service NAME with time, author, changes and outcome.

    The cluster keeps the last 10. Secrets are not part of them.

    \b
      rayllm-ctl history qwen3-32b
      rayllm-ctl history qwen3-32b --revision 3 > qwen3-32b.yaml
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_list, print_manifests
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.rollout import history

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    if revision is not None:
        found = history.revision(cluster, name, namespace, revision)
        print_manifests(found.manifests, output or "yaml")
        return
    revisions = history.history(cluster, name, namespace)
    if output in MACHINE_FORMATS:
        print_list("RevisionList", (one.facts for one in revisions), output)
    else:
        from rayllm_ctl.console.rollout.history import history_table

        click.echo(history_table(revisions), nl=False)

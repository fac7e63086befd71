"""`bundle`: the recorded state of a service, for diagnosis elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import OutputPath


@click.command(cls=Command, short_help="Collect a service's objects, events and logs, without secrets.")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=OutputPath(path_type=Path),
    metavar="PATH",
    help="A new folder or FILE.tar.gz; NAME-bundle.tar.gz by default.",
)
@kube_options
def command(name: str, output: Path | None, kube: KubeFlags) -> None:
    """Collect the objects, events, logs and Ray Serve state of service NAME for a problem report.

    rayllm-ctl status NAME --from PATH shows the service as it was. Secrets are masked: values of environment variables,
    flags and fields with such names, and text that looks like a token. Prompts in logs are not masked.

    \b
      rayllm-ctl bundle qwen3-32b -o qwen.tar.gz
      rayllm-ctl status qwen3-32b --from qwen.tar.gz
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.observe.bundle.write import collect_bundle, require_new

    target = output or Path(f"{name}-bundle.tar.gz")
    require_new(target)
    cluster = connect(kube)
    written = collect_bundle(cluster, name, kube.namespace or cluster.namespace, target)
    for note in written.notes:
        click.echo(note, err=True)
    click.echo(
        f"{written.objects} objects and {written.logs} logs; secrets are masked by their names and formats: "
        "review the bundle before you share it",
        err=True,
    )
    click.echo(str(target))

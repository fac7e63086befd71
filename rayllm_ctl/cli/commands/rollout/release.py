"""`release`: a service of the controller for the command line."""

from __future__ import annotations

from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import dry_run_option


@click.command(cls=Command, short_help="Take a service back from the controller.")
@click.argument("name")
@dry_run_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context, name: str, dry_run: Literal["none", "server"], output: str | None, kube: KubeFlags
) -> None:
    """Delete the LLMService of service NAME and keep the service as it runs, without a restart.

    The command line changes it from then on, as it is in its last revision. The history stays.

    A release that was interrupted is continued by the same command.

    \b
      rayllm-ctl release qwen3-32b
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.llmservice.release import prepare_release, release_service

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    found = prepare_release(cluster, name, namespace)
    again = f"rayllm-ctl release {name} -n {namespace}    # continues"
    with show(ctx, output) as display, interruptible(f"{name} runs, and is released in part", again):
        for event in release_service(found, dry_run=dry_run == "server"):
            display.handle(event)

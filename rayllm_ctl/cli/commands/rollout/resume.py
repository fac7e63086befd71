"""`resume`: start the pods of a suspended service."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import wait_options


@click.command(cls=Command, short_help="Start a suspended service again.")
@click.argument("name")
@wait_options
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context, name: str, wait: bool, timeout: float | None, output: str | None, kube: KubeFlags
) -> None:
    """Start the pods of the suspended service NAME again and wait until the model answers.

    \b
      rayllm-ctl resume qwen3-32b -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.suspend import prepare_suspension, resume

    cluster = connect(kube)
    found = prepare_suspension(cluster, name, kube.namespace or cluster.namespace)
    follow = f"rayllm-ctl watch {name} -n {found.service.namespace}     # follow it"
    with show(ctx, output) as display, interruptible(f"the operation on {name} continues in the cluster", follow):
        for event in resume(found, wait=wait, timeout=timeout):
            display.handle(event)

"""`suspend`: stop the pods of a service."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import waiting_options


@click.command(cls=Command, short_help="Stop a service's pods; keep its configuration.")
@click.argument("name")
@waiting_options("Wait until the pods are gone.")
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context, name: str, wait: bool, timeout: float | None, output: str | None, kube: KubeFlags
) -> None:
    """Delete all pods of service NAME, and keep its objects, addresses, API keys and history.

    This frees its GPUs. The service does not answer until `rayllm-ctl resume NAME`. A deploy in between changes it, and
    leaves it suspended.

    \b
      rayllm-ctl suspend qwen3-32b -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.suspend import prepare_suspension, suspend

    cluster = connect(kube)
    found = prepare_suspension(cluster, name, kube.namespace or cluster.namespace)
    follow = f"rayllm-ctl watch {name} -n {found.service.namespace}     # follow it"
    with show(ctx, output) as display, interruptible(f"the operation on {name} continues in the cluster", follow):
        for event in suspend(found, wait=wait, timeout=timeout):
            display.handle(event)

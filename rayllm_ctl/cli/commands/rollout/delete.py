"""`delete`: delete a service and the objects applied with it."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration


@click.command(cls=Command, short_help="Delete a service and wait until its pods are gone.")
@click.argument("name")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the pods are gone.")
@click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait.")
@click.option("--ignore-not-found", is_flag=True, help="Succeed when there is no such service.")
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    wait: bool,
    timeout: float,
    ignore_not_found: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Delete service NAME and the objects that rayllm-ctl applied with it, and wait until its pods are gone.

    \b
      rayllm-ctl delete qwen3-32b -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.delete import delete

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    events = delete(cluster, name, namespace, wait=wait, timeout=timeout, ignore_not_found=ignore_not_found)
    again = f"rayllm-ctl delete {name} -n {namespace}    # wait until it is gone"
    with show(ctx, output) as display, interruptible(f"the deletion of {name} continues", again):
        for event in events:
            display.handle(event)

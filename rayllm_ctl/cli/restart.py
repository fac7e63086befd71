"""`restart`: new pods for a service, step by step."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kubeflags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option
from rayllm_ctl.cli.waitflags import wait_options
from rayllm_ctl.errors import INTERRUPTED, UserError


@click.command(short_help="Restart the pods of a service step by step.")
@click.argument("name")
@click.option("--accept-outage", is_flag=True, help="Also if the service does not answer for a while.")
@wait_options
@output_option("json", "name")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    accept_outage: bool,
    wait: bool,
    timeout: float | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Restart service NAME while it goes on answering.

    KubeRay starts a second RayCluster next to the one that runs, and deletes that when the second serves: for a while
    the service needs twice its GPUs. In mode raycluster the worker pods are deleted one at a time, and each is waited
    for, with --no-wait too. With one replica nothing answers meanwhile, which --accept-outage accepts.
    """
    from rayllm_ctl.cli.session import connect, print_meaning, show
    from rayllm_ctl.workflows.restart import prepare, restart

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    found = prepare(cluster, name, namespace, accept_outage=accept_outage)
    if found.diff is not None:
        print_meaning(ctx, found.diff)
    with show(ctx, output) as display:
        try:
            for event in restart(cluster, found, wait=wait, timeout=timeout):
                display.handle(event)
        except KeyboardInterrupt:
            follow = f"rayllm-ctl watch {name} -n {namespace}     # follow it"
            raise UserError(
                f"interrupted: what has been restarted of {name} goes on starting", hint=follow, exit_code=INTERRUPTED
            ) from None

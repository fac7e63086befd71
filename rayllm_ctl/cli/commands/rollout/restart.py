"""`restart`: new pods for a service, step by step."""

from __future__ import annotations

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import wait_options
from rayllm_ctl.model.spec.ray_options import Way


@click.command(cls=Command, short_help="Restart the pods of a service step by step.")
@click.argument("name")
@click.option(
    "--upgrade",
    "way",
    type=click.Choice(["auto", "new-cluster"]),
    default="auto",
    show_default=True,
    help="auto: shrink the running RayCluster if the nodes lack capacity for a second one; new-cluster: wait for "
    "capacity.",
)
@click.option("--accept-outage", is_flag=True, help="Proceed even if the service is unavailable for a while.")
@wait_options
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    way: Way,
    accept_outage: bool,
    wait: bool,
    timeout: float | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Restart service NAME without downtime.

    KubeRay starts a second RayCluster next to the running one, and deletes the old one when the new one serves: for a
    while the service needs twice its GPUs. If the nodes do not have them, it runs fewer replicas in the meantime; with
    one replica the running RayCluster is deleted first, which requires --accept-outage.

    In mode raycluster the worker pods are replaced one at a time, even with --no-wait. With one replica the service is
    unavailable in the meantime, which requires --accept-outage.

    \b
      rayllm-ctl restart qwen3-32b -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect, print_meaning, show
    from rayllm_ctl.workflows.rollout.restart import RestartOptions, prepare_restart, restart

    options = RestartOptions(way=way, accept_outage=accept_outage, wait=wait, timeout=timeout)
    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    found = prepare_restart(cluster, name, namespace, options)
    if found.diff is not None:
        print_meaning(ctx, found.diff)
    follow = f"rayllm-ctl watch {name} -n {namespace}     # follow it"
    with show(ctx, output) as display, interruptible(f"pods of {name} that were restarted keep starting", follow):
        for event in restart(found, options):
            display.handle(event)

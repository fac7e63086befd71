"""`scale`: change the replica bounds of a running service."""

from __future__ import annotations

from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import dry_run_option, force_option, wait_options
from rayllm_ctl.errors import UsageError

_COUNT = click.IntRange(min=0)


@click.command(cls=Command, short_help="Change the replicas of a service.")
@click.argument("name")
@click.option("--min-replicas", "low", type=_COUNT, metavar="N", help="Minimum number of replicas; 0 scales to zero.")
@click.option("--max-replicas", "high", type=_COUNT, metavar="N", help="Maximum number of replicas.")
@click.option("--replicas", type=_COUNT, metavar="N", help="Fixed number of replicas.")
@click.option("--model", metavar="MODEL", help="Model to scale, for a service with several.")
@wait_options
@dry_run_option
@force_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    low: int | None,
    high: int | None,
    replicas: int | None,
    model: str | None,
    wait: bool,
    timeout: float | None,
    dry_run: Literal["none", "server"],
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Change the replica bounds of service NAME while it runs, without its spec file.

    A bound without a flag stays as it is. No replica restarts. The spec file is not changed: the next deploy sets
    its bounds again.

    \b
      rayllm-ctl scale qwen3-32b --max-replicas 6
      rayllm-ctl scale chat --model Qwen/Qwen3-8B --replicas 2
    """
    from rayllm_ctl.cli.rollout import roll_out
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy
    from rayllm_ctl.workflows.rollout.llmservice.change import DeclaredChange, change_declared
    from rayllm_ctl.workflows.rollout.scale import prepare, require_possible

    again = f"rayllm-ctl scale {name}"
    if replicas is not None:
        if low is not None or high is not None:
            raise UsageError(
                "--replicas sets both bounds: --min-replicas and --max-replicas cannot be combined with it",
                hint=(
                    f"{again} --replicas {replicas}",
                    f"{again} --min-replicas {replicas if low is None else low} "
                    f"--max-replicas {replicas if high is None else high}",
                ),
            )
        low = high = replicas
    if low is None and high is None:
        raise UsageError("expected --min-replicas, --max-replicas or --replicas", hint=f"{again} --max-replicas 4")
    require_possible(low, high)
    cluster = connect(kube)
    found = prepare(cluster, name, kube.namespace or cluster.namespace, low, high, model)
    if isinstance(found, DeclaredChange):
        change = found.written(dry_run=dry_run == "server", force=force_conflicts)
        with show(ctx, output) as display:
            roll_out(display, change_declared(change, wait=wait, timeout=timeout))
        return
    options = DeployOptions(
        dry_run=dry_run,
        wait=wait,
        timeout=found.start_seconds if timeout is None else timeout,
        force_conflicts=force_conflicts,
        upgrade=None,
        change=found.change,
        unchanged=found.unchanged,
        service=found.service,
        applied=found.applied,
        revisions=found.revisions,
    )
    with show(ctx, output) as display:
        roll_out(display, deploy([found.rendering], options, lambda: cluster))

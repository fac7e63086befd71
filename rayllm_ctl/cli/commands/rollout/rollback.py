"""`rollback`: an earlier revision of a service, applied again."""

from __future__ import annotations

from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import dry_run_option, force_option, upgrade_options, wait_options
from rayllm_ctl.model.spec.ray_options import Way


@click.command(cls=Command, short_help="Apply an earlier revision of a service again.")
@click.argument("name")
@click.option(
    "--to",
    type=click.IntRange(min=1),
    metavar="REVISION",
    help="Revision to apply; by default the last one that differs from the current one.",
)
@upgrade_options
@wait_options
@dry_run_option
@force_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    to: int | None,
    upgrade: Way,
    accept_outage: bool,
    wait: bool,
    timeout: float | None,
    dry_run: Literal["none", "server"],
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Apply an earlier revision of service NAME again and wait until the model answers.

    First it shows the effect on running pods, as `diff` does. The rollback is recorded as a new revision. The spec
    file stays as it is: the next deploy applies it again.

    \b
      rayllm-ctl rollback qwen3-32b
      rayllm-ctl rollback qwen3-32b --to 3 --dry-run=server
    """
    from rayllm_ctl.cli.rollout import conflicts_can_be_forced, roll_out
    from rayllm_ctl.cli.session import connect, print_meaning, show
    from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy
    from rayllm_ctl.workflows.rollout.history import DeclaredRollback, prepare_rollback
    from rayllm_ctl.workflows.rollout.llmservice.change import change_declared, require_spec, with_rollout

    cluster = connect(kube)
    with conflicts_can_be_forced():
        found = prepare_rollback(
            cluster, name, kube.namespace or cluster.namespace, to, force_conflicts=force_conflicts
        )  # fmt: skip
    click.echo(f"revision {found.revision.number} of {name}: {found.revision.change}", err=True)
    if isinstance(found, DeclaredRollback):
        change = with_rollout(found.change, upgrade)
        change = change.written(dry_run=dry_run == "server", force=force_conflicts, accept=accept_outage)
        with conflicts_can_be_forced():
            require_spec(change)
        with show(ctx, output) as display:
            roll_out(display, change_declared(change, wait=wait, timeout=timeout))
        return
    print_meaning(ctx, found.diff)
    options = DeployOptions(
        dry_run=dry_run,
        wait=wait,
        timeout=timeout if timeout is not None else found.revision.start_seconds,
        force_conflicts=force_conflicts,
        accept_outage=accept_outage,
        upgrade=upgrade,
        said=True,
        change=f"rollback to {found.revision.number}",
        service=found.service,
        applied=found.applied,
        revisions=found.revisions,
        diff=found.diff,
    )
    with show(ctx, output) as display:
        roll_out(display, deploy([found.rendering], options, lambda: cluster))

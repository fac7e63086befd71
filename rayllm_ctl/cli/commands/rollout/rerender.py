"""`rerender`: the manifests of a service, made again by the controller."""

from __future__ import annotations

from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import dry_run_option, wait_options


@click.command(cls=Command, short_help="Have the controller render a service again.")
@click.argument("name")
@wait_options
@dry_run_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    wait: bool,
    timeout: float | None,
    dry_run: Literal["none", "server"],
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Have the controller render service NAME again, with its own release, although the spec is the same.

    A new release of the controller changes no service by itself. This sets spec.renderVersion to the version of
    rayllm-ctl; what that changes follows the rules of any other change of the spec.

    \b
      rayllm-ctl rerender qwen3-32b
    """
    from rayllm_ctl.cli.rollout import roll_out
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.llmservice.change import change_declared
    from rayllm_ctl.workflows.rollout.llmservice.rerender import prepare_rerender

    cluster = connect(kube)
    found = prepare_rerender(cluster, name, kube.namespace or cluster.namespace)
    with show(ctx, output) as display:
        roll_out(display, change_declared(found.written(dry_run=dry_run == "server"), wait=wait, timeout=timeout))

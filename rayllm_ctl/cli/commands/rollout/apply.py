"""`apply -f`: the services of spec files, one after the other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.cli.wait_flags import force_option, manifests_dry_run_option, upgrade_options
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.ray_options import Way


@click.command(cls=Command, short_help="Apply the services of spec files.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    required=True,
    help="Spec file, - for standard input. Can be repeated.",
)
@click.option("--accept-risk", is_flag=True, help="Apply a plan that is risky.")
@click.option("--offline", is_flag=True, help="Do not use the network to look up the models.")
@click.option("--wait/--no-wait", default=False, show_default=True, help="Wait until the models answer.")
@upgrade_options
@click.option("--timeout", type=Duration(), help="How long to wait for each; from its plan by default.")
@manifests_dry_run_option
@force_option
@template_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    accept_risk: bool,
    upgrade: Way,
    accept_outage: bool,
    offline: bool,
    wait: bool,
    timeout: float | None,
    dry_run: Literal["none", "client", "server"],
    force_conflicts: bool,
    template_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Plan and apply the services of spec files. All files are read and planned before the first is applied.

    \b
      rayllm-ctl apply -f qwen.yaml -f llama.yaml
      cat qwen.yaml | rayllm-ctl apply -f - --dry-run=server
    """
    from rayllm_ctl.cli.rollout import print_rendered, roll_out, rolled_out_as
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy

    services = [resolve_service(file, {}, kube.namespace) for file in files]
    for (namespace, name), count in Counter((one.namespace, one.name) for one in services).items():
        if count > 1:
            where = f" in namespace {namespace}" if namespace else ""
            raise UsageError(f"service {name}{where} is in {count} of the files", hint="remove all of them but one")
    render = RenderOptions(facts=FactSources(offline=offline), accept_risk=accept_risk, template_dir=template_dir)
    options = DeployOptions(
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        force_conflicts=force_conflicts,
        render=render,
        accept_outage=accept_outage,
        upgrade=upgrade,
    )
    events = deploy(rolled_out_as(ctx, services, upgrade), options, lambda: connect(kube))
    if dry_run == "client":
        print_rendered(events, output)
        return
    with show(ctx, output) as display:
        roll_out(display, events)

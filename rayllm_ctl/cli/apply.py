"""`apply -f`: the services of spec files, one after the other."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.options import KubeFlags, kube_options, output_option
from rayllm_ctl.cli.values import Duration


@click.command(short_help="Apply the services of spec files.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    required=True,
    help="Spec file, - for standard input; repeatable.",
)
@click.option("--accept-risk", is_flag=True, help="Apply a plan that is risky.")
@click.option("--offline", is_flag=True, help="Use no network to look up the models.")
@click.option("--wait/--no-wait", default=False, show_default=True, help="Wait until the models answer.")
@click.option("--timeout", type=Duration(), help="How long to wait for each; from its plan by default.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    show_default=True,
    help="server: let the API server check the manifests; nothing is written.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that another field manager owns.")
@output_option("json", "name")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    accept_risk: bool,
    offline: bool,
    wait: bool,
    timeout: float | None,
    dry_run: str,
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Plan and apply the services of spec files. All files are read and planned before the first is applied."""
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.model.events import Planned
    from rayllm_ctl.workflows.deploy import DeployOptions, deploy
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import manifests
    from rayllm_ctl.workflows.service import resolve

    services = [resolve(file, {}, kube.namespace) for file in files]
    planned = [(service, make_plan(service, offline=offline)) for service in services]
    for _, plan in planned:
        manifests(plan, accept_risk=accept_risk)
    cluster = connect(kube)
    options = DeployOptions(dry_run == "server", wait, timeout, force_conflicts, accept_risk)
    with show(ctx, output) as display:
        for service, plan in planned:
            display.handle(Planned(plan))
            for event in deploy(cluster, service, plan, options):
                display.handle(event)

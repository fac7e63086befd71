"""`deploy`: plan, render, apply, wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.options import FLAGS, KubeFlags, facts_options, kube_options, output_option, service_options
from rayllm_ctl.cli.values import Duration


@click.command(short_help="Plan, render, apply and wait until the model answers.")
@service_options()
@facts_options
@click.option("--accept-risk", is_flag=True, help="Deploy a plan that is risky.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the model answers.")
@click.option("--timeout", type=Duration(), help="How long to wait; from the plan by default.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="client: print the manifests; server: let the API server check them; nothing is written.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that another field manager owns.")
@output_option("json", "yaml", "name")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    accept_risk: bool,
    wait: bool,
    timeout: float | None,
    dry_run: str,
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Bring a model to an OpenAI-compatible endpoint: plan, render, apply, and wait until it answers.

    \b
      rayllm-ctl deploy --model Qwen/Qwen3-32B --gpu H100-80GB --tp 4 --max-replicas 4
      rayllm-ctl deploy -f qwen.yaml --dry-run=server
    """
    from rayllm_ctl.cli.session import connect, print_manifests, show
    from rayllm_ctl.model.events import Planned
    from rayllm_ctl.workflows.deploy import DeployOptions, deploy
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import manifests
    from rayllm_ctl.workflows.service import resolve

    service = resolve(file, overrides, kube.namespace, FLAGS)
    plan = make_plan(service, model_config=model_config, offline=offline, prices=prices)
    # Before anything is connected to: what cannot run is refused even where there is no cluster.
    objects = manifests(plan, accept_risk=accept_risk)
    if dry_run == "client":
        print_manifests(objects, output or "yaml")
        return
    options = DeployOptions(dry_run == "server", wait, timeout, force_conflicts, accept_risk)
    with show(ctx, output) as display:
        display.handle(Planned(plan))
        for event in deploy(connect(kube), service, plan, options):
            display.handle(event)

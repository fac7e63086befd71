"""`deploy`: plan, render, apply, wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import (
    RESULT_FORMATS,
    facts_options,
    kuberay_option,
    output_option,
    service_options,
    template_option,
)
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.serve_config_flags import serve_config_options, serve_file
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.cli.wait_flags import force_option, manifests_dry_run_option, upgrade_options
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.ray_options import Way


@click.command(cls=Command, short_help="Plan, render, apply and wait until the model answers.")
@service_options()
@serve_config_options
@facts_options
@click.option("--accept-risk", is_flag=True, help="Deploy a plan that is risky.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the model answers.")
@upgrade_options
@click.option("--timeout", type=Duration(), help="How long to wait; from the plan by default.")
@click.option(
    "--rollback-on-failure",
    is_flag=True,
    help="If the model does not answer in the end, apply the last revision that did.",
)
@manifests_dry_run_option
@kuberay_option(" with --dry-run=client")
@force_option
@template_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    serve_config: Path | None,
    code: Path | None,
    facts: FactSources,
    accept_risk: bool,
    upgrade: Way,
    accept_outage: bool,
    wait: bool,
    timeout: float | None,
    rollback_on_failure: bool,
    dry_run: Literal["none", "client", "server"],
    kuberay: str | None,
    force_conflicts: bool,
    template_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Bring MODEL, a name on the Hugging Face Hub, to an OpenAI-compatible endpoint.

    Plan and render it, apply the manifests, and wait until the model answers.

    \b
      rayllm-ctl deploy Qwen/Qwen3-32B --gpu H100-80GB --tp 4 --max-replicas 4
      rayllm-ctl deploy -f qwen.yaml --dry-run=server
      rayllm-ctl deploy --serve-config config.yaml --code src
    """
    from rayllm_ctl.cli.rollout import print_rendered, roll_out, rolled_out_as
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.errors import UsageError
    from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.rollout.deploy import DeployOptions, deploy
    from rayllm_ctl.workflows.rollout.fallback import deploy_or_roll_back

    if kuberay is not None and dry_run != "client":
        raise UsageError(
            "--kuberay-version requires --dry-run=client: otherwise the version is read from the cluster",
            hint="remove --kuberay-version, or add --dry-run=client",
        )
    if rollback_on_failure and (not wait or dry_run != "none"):
        raise UsageError(
            "--rollback-on-failure cannot be combined with --no-wait or --dry-run: the failure is seen while waiting",
            hint="rayllm-ctl rollback NAME    # later",
        )
    service = serve_file(serve_config, code, file, template_dir, overrides, kube.namespace) or resolve_service(
        file, overrides, kube.namespace, FLAGS
    )
    render = RenderOptions(facts=facts, accept_risk=accept_risk, template_dir=template_dir, kuberay=kuberay or DEFAULT)
    options = DeployOptions(
        dry_run=dry_run,
        wait=wait,
        timeout=timeout,
        force_conflicts=force_conflicts,
        render=render,
        accept_outage=accept_outage,
        upgrade=upgrade,
    )
    start = deploy_or_roll_back if rollback_on_failure else deploy
    events = start(rolled_out_as(ctx, [service], upgrade), options, lambda: connect(kube))
    if dry_run == "client":
        print_rendered(events, output)
        return
    with show(ctx, output) as display:
        roll_out(display, events)

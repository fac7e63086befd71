"""`batch submit`: plan, render and apply a batch job."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import click

from rayllm_ctl.cli.batch_flags import BATCH_FLAGS, BATCH_TABLE
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, facts_options, kuberay_option, output_option, spec_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.cli.wait_flags import force_option, manifests_dry_run_option
from rayllm_ctl.model.spec.fact_sources import FactSources


@click.command(cls=Command, short_help="Plan, render and apply a batch job.")
@spec_options(BATCH_TABLE)
@facts_options
@click.option("--accept-risk", is_flag=True, help="Submit a plan that is risky.")
@manifests_dry_run_option
@kuberay_option(" with --dry-run=client")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the job until it ends.")
@click.option("--timeout", type=Duration(), help="How long to wait for the model and the job (default: no limit).")
@force_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    facts: FactSources,
    accept_risk: bool,
    dry_run: Literal["none", "client", "server"],
    kuberay: str | None,
    wait: bool,
    timeout: float | None,
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Plan a batch job, check it, apply it as a RayJob, and follow it until it ends.

    With a model that is mirrored (spec.storage.model.mirror), the RayJob is applied once the files are downloaded. The
    same job, submitted again after it ended, computes the missing rows. Ctrl-C leaves it running. Exit codes are those
    of rayllm-ctl batch watch.

    \b
      rayllm-ctl batch submit Qwen/Qwen3-8B --input 's3://bucket/news/*.jsonl' \\
        --output-path s3://bucket/summaries/ --prompt 'Summarize: {{ text }}'
      rayllm-ctl batch submit -f job.yaml --dry-run=client
      echo 'Why is the sky blue?' | rayllm-ctl batch submit Qwen/Qwen3-8B \\
        --input - --output-path s3://bucket/try/
    """
    from rayllm_ctl.cli.batch_spec import resolve_batch
    from rayllm_ctl.cli.commands.batch.follow import follow_to_end, running_hints
    from rayllm_ctl.cli.rollout import print_rendered, submitted
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.errors import UsageError
    from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
    from rayllm_ctl.workflows.batch.submit import SubmitOptions, submit
    from rayllm_ctl.workflows.render.types import RenderOptions

    if kuberay is not None and dry_run != "client":
        raise UsageError(
            "--kuberay-version requires --dry-run=client: otherwise the version is read from the cluster",
            hint="remove --kuberay-version, or add --dry-run=client",
        )
    follows = wait and dry_run == "none"
    if timeout is not None and not follows:
        raise UsageError("--timeout requires --wait: without it no job is followed", hint="remove --timeout")
    if follows and output == "name":
        raise UsageError("-o name requires --no-wait", hint="-o json prints a line for each change of the job")
    batch = resolve_batch(file, overrides, kube.namespace, BATCH_FLAGS)
    render = RenderOptions(facts=facts, accept_risk=accept_risk, kuberay=kuberay or DEFAULT)
    connected = cache(lambda: connect(kube))
    options = SubmitOptions(
        dry_run=dry_run, wait=follows, timeout=timeout, force_conflicts=force_conflicts, render=render
    )
    events = submit(batch, options, connected)
    if dry_run == "client":
        print_rendered(events, output)
        return
    with show(ctx, None if follows else output) as display:
        waited = submitted(display, events, running_hints)
    if follows:
        namespace = batch.namespace or connected().namespace
        left = None if timeout is None else max(timeout - waited, 0.0)
        ctx.exit(follow_to_end(ctx, connected(), batch.name, namespace, left, output))

"""`bench offline`: the engine without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.batch_flags import ENGINE_FIELDS
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import TABLE_FORMATS, facts_options, output_option, spec_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.spec_flags import DEPLOY_FLAGS, FLAGS, SERVICE_FLAGS
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.errors import FAILED, INTERRUPTED
from rayllm_ctl.model.spec.fact_sources import FactSources

_FIELDS = {*ENGINE_FIELDS, "model.id", "name", "load.concurrency"}
_FLAGS = tuple(flag for flag in SERVICE_FLAGS + DEPLOY_FLAGS if flag[1] in _FIELDS)


@click.command(cls=Command, name="offline", short_help="Measure the engine without a server, in a Job.")
@spec_options(_FLAGS)
@facts_options
@click.option("--accept-risk", is_flag=True, help="Run a plan that is risky.")
@click.option("--requests", type=click.IntRange(min=1), default=200, show_default=True,
              help="Requests for the throughput, all sent at once.")  # fmt: skip
@click.option("--start-timeout", type=Duration(), default="30m", show_default=True,
              help="How long to wait for the Job's pod to start.")  # fmt: skip
@output_option(*TABLE_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    facts: FactSources,
    accept_risk: bool,
    requests: int,
    start_timeout: float,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Measure the engine of one replica without a server: throughput and latency, with vLLM's own benchmarks.

    \b
      rayllm-ctl bench offline Qwen/Qwen3-32B --gpu H100-80GB --tp 4
      rayllm-ctl bench offline -f qwen.yaml --input-tokens 1000 --concurrency 16

    A Job runs a pod like that of a replica, with the same image, GPUs and engine arguments, and is deleted at the end.
    --concurrency is the batch size for the latency, 8 by default. Ctrl-C ends the Job and prints the results so far.
    Exits with 1 if the latency could not be measured.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.console.bench.offline import offline_lines
    from rayllm_ctl.workflows.bench.offline import OfflineOptions, measure_offline
    from rayllm_ctl.workflows.render.types import RenderOptions

    service = resolve_service(file, overrides, kube.namespace, FLAGS)
    render = RenderOptions(facts=facts, accept_risk=accept_risk)
    options = OfflineOptions(requests=requests, start_seconds=start_timeout, render=render)
    results = measure_offline(service, options, lambda: connect(kube), lambda text: click.echo(text, err=True))
    if output in MACHINE_FORMATS:
        print_document("OfflineBenchResult", results.to_json(), output)
    else:
        style = printer(ctx)
        for line in offline_lines(results, style):
            style.line(line)
    if results.interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(FAILED if results.problem else 0)

"""`plan`: the GPUs that a model fits on, the size of its replicas, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, facts_options, output_option, service_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import FAILED, OK, UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.model.plan.plan import Plan
    from rayllm_ctl.model.spec.batch import BatchJob


@click.command(cls=Command, name="plan", short_help="Show which GPUs a model fits on, how large, and why.")
@service_options()
@facts_options
@click.option("-n", "--namespace", help="Namespace of the service; that of the spec file by default.")
@click.option("--rows", type=int, metavar="N", help="Number of rows of a BatchJob, to plan time and cost for.")
@click.option("--explain", is_flag=True, help="Show every candidate and every formula.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Picture of GPU memory and of speed by requests in flight; .png or .svg.")  # fmt: skip
@output_option(*TABLE_FORMATS)
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    facts: FactSources,
    namespace: str | None,
    rows: int | None,
    explain: bool,
    plot: Path | None,
    output: str | None,
) -> int:
    """Show which GPUs MODEL fits on, how large, and why, without a cluster.

    \b
      rayllm-ctl plan Qwen/Qwen3-32B
      rayllm-ctl plan Qwen/Qwen3-32B --gpu L4 --tp 4 --max-model-len 32k
      rayllm-ctl plan Qwen/Qwen3-32B --concurrency 200 --ttft 1s --tpot 40ms
      rayllm-ctl plan -f job.yaml --rows 100000
      rayllm-ctl plan Qwen/Qwen3-32B --gpu H100 --tp 2 --plot plan.svg

    --plot needs the package matplotlib, which the extra bench installs.

    Exit code 0: fits or risky; 1: does not fit, or contradicts itself; 2: usage.
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.service import may_be_batch, named_after, resolve_service
    from rayllm_ctl.cli.session import printer
    from rayllm_ctl.model.plan.totals import several_to_json
    from rayllm_ctl.workflows.plan.model import make_plan

    if plot is not None:
        from rayllm_ctl.workflows.plan.plot import check_plot_file

        check_plot_file(plot)
    if file is not None and may_be_batch(file):
        from rayllm_ctl.cli.batch_spec import batch_of_file

        counted = {} if rows is None else {"load.rows": rows}
        batch = batch_of_file(file, {**overrides, **counted}, namespace, {**FLAGS, "load.rows": "--rows"})
        if batch is not None:
            return _plan_batch(ctx, batch, output, facts, explain, plot)
    if rows is not None:
        raise UsageError("--rows applies to a BatchJob only", hint="-f job.yaml")
    if facts.model_config is not None and file is None:
        # For a plan the model's name is only a label.
        overrides = {"model.id": named_after(facts.model_config), **overrides}
    service = resolve_service(file, overrides, namespace, FLAGS)
    sized = {"replicas.fixed", "replicas.min", "replicas.max"} & overrides.keys()
    plan = make_plan(
        service,
        facts,
        explain=explain,
        hand_sized=True if sized else None,
        curve=plot is not None,
    )
    if output in MACHINE_FORMATS:
        if plan.models is None:
            print_document("Plan", plan, output)
        else:
            print_document("MultiModelPlan", several_to_json(plan), output)
    else:
        from rayllm_ctl.console.plan.plan import table

        style = printer(ctx)
        for line in table(plan, style, wide=output == "wide"):
            style.line(line)
    _write_plot(plan, plot)
    return OK if plan.runs else FAILED


def _write_plot(plan: Plan, file: Path | None) -> None:
    if file is not None:
        from rayllm_ctl.workflows.plan.plot import write_plot

        write_plot(plan, file)
        click.echo(f"{file} written", err=True)


def _plan_batch(
    ctx: click.Context,
    batch: BatchJob,
    output: str | None,
    facts: FactSources,
    explain: bool,
    plot: Path | None,
) -> int:
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.session import printer
    from rayllm_ctl.workflows.render.batch import make_batch_plan

    plan = make_batch_plan(batch, facts, explain=explain, curve=plot is not None)
    if output in MACHINE_FORMATS:
        print_document("BatchPlan", plan, output)
    else:
        from rayllm_ctl.console.batch.plan import batch_table

        style = printer(ctx)
        for line in batch_table(plan, style, wide=output == "wide"):
            style.line(line)
    _write_plot(plan.plan, plot)
    return OK if plan.runs else FAILED

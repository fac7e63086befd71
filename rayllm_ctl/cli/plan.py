"""`plan`: on which GPUs a model fits, how large, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.options import FLAGS, facts_options, output_option, service_options
from rayllm_ctl.errors import FAILED, OK


@click.command(name="plan", short_help="Say on which GPUs a model fits, how large, and why.")
@service_options()
@facts_options
@click.option("--explain", is_flag=True, help="Show every candidate and every formula.")
@output_option("table", "wide", "json", "yaml", default="table")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    explain: bool,
    output: str,
) -> int:
    """Say on which GPUs a model fits, how large, and why, without a cluster.

    \b
      rayllm-ctl plan --model Qwen/Qwen3-32B
      rayllm-ctl plan --model Qwen/Qwen3-32B --gpu L4 --tp 4 --max-model-len 131072
      rayllm-ctl plan --model Qwen/Qwen3-32B --concurrency 200 --ttft 1s --tpot 40ms

    Exit code 0: fits or risky; 1: does not fit, or contradicts itself; 2: usage.
    """
    from rayllm_ctl.cli.service import named_after, resolve
    from rayllm_ctl.cli.session import print_data, printer
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.plan import make_plan

    if model_config is not None and file is None:
        # A plan needs no more of a model's name than something to call it.
        overrides = {"model.id": named_after(model_config), **overrides}
    service = resolve(file, overrides, flags=FLAGS)
    sized = {"replicas.fixed", "replicas.min", "replicas.max"} & overrides.keys()
    plan = make_plan(
        service,
        model_config=model_config,
        offline=offline,
        prices=prices,
        explain=explain,
        hand_sized=True if sized else None,
    )
    if output in ("json", "yaml"):
        print_data(to_json(plan), output)
    else:
        from rayllm_ctl.console.plan import table

        style = printer(ctx)
        for line in table(plan, style, wide=output == "wide"):
            style.line(line)
    return OK if plan.runs else FAILED

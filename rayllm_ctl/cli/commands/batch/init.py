"""`batch init`: the spec file of a batch job to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.batch_flags import BATCH_FLAGS, BATCH_TABLE
from rayllm_ctl.cli.new_file import new_file_option, new_namespace_option, require_absent, write_new
from rayllm_ctl.cli.options import facts_options, spec_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.model.spec.fact_sources import FactSources


@click.command(cls=Command, short_help="Write the spec file of a job with comments and the planned values.")
@spec_options(BATCH_TABLE)
@facts_options
@new_namespace_option
@new_file_option
def command(
    file: Path | None,
    overrides: dict[str, Any],
    facts: FactSources,
    namespace: str | None,
    output: Path | None,
) -> None:
    """Print the spec file of a batch job with comments and the planned values, as a start for a repository.

    \b
      rayllm-ctl batch init Qwen/Qwen3-8B --input 's3://bucket/news/*.jsonl' \\
        --output-path s3://bucket/out/ --prompt 'Summarize: {{ text }}' -o job.yaml
    """
    from rayllm_ctl.cli.batch_spec import resolve_batch
    from rayllm_ctl.workflows.batch.spec_file import batch_file

    require_absent(output)
    text, plan = batch_file(resolve_batch(file, overrides, namespace, BATCH_FLAGS), facts)
    write_new(output, text)
    if plan.verdict == "risky":
        reasons = "; ".join(reason.message for reason in plan.reasons)
        click.echo(f"warning: the plan is risky: {reasons}", err=True)

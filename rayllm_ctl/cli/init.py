"""`init`: a spec file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.options import FLAGS, facts_options, service_options
from rayllm_ctl.model.factsources import FactSources


@click.command(short_help="Write a spec file with comments and the planned values.")
@service_options()
@facts_options
@click.option("-n", "--namespace", help="Namespace to write into the file; none by default.")
def command(
    file: Path | None,
    overrides: dict[str, Any],
    facts: FactSources,
    namespace: str | None,
) -> None:
    """Print a spec file with comments and the planned values, as a start for a repository.

    \b
      rayllm-ctl init --model Qwen/Qwen3-32B > qwen3-32b.yaml
    """
    from rayllm_ctl.cli.service import resolve
    from rayllm_ctl.workflows.init import spec_file

    text, plan = spec_file(resolve(file, overrides, namespace, FLAGS), facts)
    click.echo(text, nl=False)
    if plan.verdict == "risky":
        reasons = "; ".join(reason.message for reason in plan.reasons)
        click.echo(f"warning: the plan is risky: {reasons}", err=True)

"""`init`: a spec file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.new_file import new_file_option, new_namespace_option, require_absent, write_new
from rayllm_ctl.cli.options import facts_options, service_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.model.spec.fact_sources import FactSources


@click.command(cls=Command, short_help="Write a spec file with comments and the planned values.")
@service_options()
@click.option(
    "--from-serve-config",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Ray Serve configuration file; its models of Ray Serve LLM become the spec file's models.",
)
@facts_options
@new_namespace_option
@new_file_option
def command(
    file: Path | None,
    overrides: dict[str, Any],
    from_serve_config: Path | None,
    facts: FactSources,
    namespace: str | None,
    output: Path | None,
) -> None:
    """Print a spec file with comments and the planned values, as a start for a repository.

    For a batch job see rayllm-ctl batch init.

    \b
      rayllm-ctl init Qwen/Qwen3-32B -o qwen3-32b.yaml
      rayllm-ctl init --from-serve-config config.yaml --gpu H100-80GB > llms.yaml
    """
    from rayllm_ctl.cli.serve_config_flags import serve_file
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.workflows.plan.spec_file import spec_file

    require_absent(output)
    given = serve_file(from_serve_config, None, file, None, overrides, namespace, flag="--from-serve-config")
    notes: tuple[str, ...] = ()
    if given is None:
        service = resolve_service(file, overrides, namespace, FLAGS)
    else:
        from rayllm_ctl.workflows.render.serve_service import served_service

        service, notes = served_service(given)
    text, plan = spec_file(service, facts)
    for note in notes:
        click.echo(note, err=True)
    write_new(output, text)
    if plan.verdict == "risky":
        reasons = "; ".join(reason.message for reason in plan.reasons)
        click.echo(f"warning: the plan is risky: {reasons}", err=True)

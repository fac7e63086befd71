"""`init`: a spec file to start from."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from rayllm_ctl.cli.options import FLAGS, facts_options, service_options
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources


@click.command(cls=Command, short_help="Write a spec file with comments and the planned values.")
@service_options()
@click.option(
    "--from-serve-config",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Ray Serve configuration file; its models of Ray Serve LLM become the spec file's models.",
)
@facts_options
@click.option("-n", "--namespace", help="Namespace to write into the file; none by default.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write, which is not overwritten if it exists; standard output by default.",
)
def command(
    file: Path | None,
    overrides: dict[str, Any],
    from_serve_config: Path | None,
    facts: FactSources,
    namespace: str | None,
    output: Path | None,
) -> None:
    """Print a spec file with comments and the planned values, as a start for a repository.

    \b
      rayllm-ctl init Qwen/Qwen3-32B -o qwen3-32b.yaml
      rayllm-ctl init --from-serve-config config.yaml --gpu H100-80GB > llms.yaml
    """
    from rayllm_ctl.cli.serve_config_flags import serve_file
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.workflows.plan.spec_file import spec_file

    if output is not None and output.exists():
        raise _exists(output)
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
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
        click.echo(f"{output} written", err=True)
    if plan.verdict == "risky":
        reasons = "; ".join(reason.message for reason in plan.reasons)
        click.echo(f"warning: the plan is risky: {reasons}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="-o with another file") from None


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} exists and is not overwritten", hint=("-o with another file", f"rm {quote(str(path))}"))

"""-o FILE of commands that write a new spec file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from rayllm_ctl.cli.values import OutputPath
from rayllm_ctl.errors import UsageError, not_written


def _file(_ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    return None if value == Path("-") else value


new_file_option = click.option(
    "-o",
    "--output",
    type=OutputPath(path_type=Path, dir_okay=False, allow_dash=True),
    callback=_file,
    metavar="FILE",
    help="File to write, which is not overwritten if it exists; standard output by default.",
)

new_namespace_option = click.option("-n", "--namespace", help="Namespace to write into the file; none by default.")


def require_absent(path: Path | None) -> None:
    """Raise UsageError if the file to write exists, before its text takes time."""
    if path is not None and path.exists():
        raise _exists(path)


def write_new(path: Path | None, text: str) -> None:
    """Write a file that does not exist; None: standard output."""
    if path is None:
        click.echo(text, nl=False)
        return
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise not_written(path, error) from None
    click.echo(f"{path} written", err=True)


def _exists(path: Path) -> UsageError:
    remove = (f"rm {quote(str(path))}",) if path.is_file() else ()
    return UsageError(f"{path} exists and is not overwritten", hint=("-o with another file", *remove))

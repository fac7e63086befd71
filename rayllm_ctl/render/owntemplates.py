"""Templates of the user's own: which objects they add, and errors that name the file and the line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import yaml

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.render.templating import TEMPLATES, fill

_SUFFIX = ".yaml.j2"
_DOCUMENTED = "docs/how-to/templates.md lists the names that templates may use"


def added(folder: Path, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects of the templates in `folder` that the package does not have, by file name.

    A file whose name starts with "_" is for others to import; one that comes out empty is not an object.
    """
    for name in own_templates(folder):
        if name.startswith("_") or (TEMPLATES / name).exists():
            continue
        made = fill(name, values, folder)
        if made is not None:
            yield _checked(made, folder / name)


def own_templates(folder: Path) -> list[str]:
    """The names of the templates in `folder`. UsageError if it cannot be read or has none."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_SUFFIX))
    except OSError as error:
        raise UsageError(f"--template-dir {folder}: {error.strerror}") from None
    if not names:
        raise UsageError(f"--template-dir {folder} contains no *{_SUFFIX} file", hint=_DOCUMENTED)
    return names


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what goes wrong in a template into a UserError with its file and line."""
    own_templates(folder)
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"{error.filename or error.name}:{error.lineno}: {error.message}", hint=_DOCUMENTED) from error
    except jinja2.TemplateNotFound as error:
        raise UserError(f"{folder}: there is no template {error.name}", hint=_DOCUMENTED) from error
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise UserError(f"{_place(error, folder)}: {error}", hint=_DOCUMENTED) from error
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not valid YAML"
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1} of what it prints" if mark else ""
        name = next(iter(getattr(error, "__notes__", ())), "a template")
        twice = "duplicate key" in problem
        raise UserError(
            f"{folder / name} does not print valid YAML: {problem}{line}",
            hint="leave one of the two out" if twice else "end every value with `| yaml`, which quotes it",
        ) from error


def _place(error: BaseException, folder: Path) -> str:
    """The file and line of the innermost template that `error` passed through."""
    place, trace = str(folder), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(_SUFFIX):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _checked(made: Any, file: Path) -> dict[str, Any]:
    metadata = made.get("metadata") if isinstance(made, dict) else None
    if not isinstance(metadata, dict) or not all((made.get("apiVersion"), made.get("kind"), metadata.get("name"))):
        raise UserError(
            f"{file} does not print a Kubernetes object with apiVersion, kind and metadata.name",
            hint="one object per template; a file whose name starts with _ is only imported by others",
        )
    found: dict[str, Any] = made
    return found

"""Serve configuration files: read as Ray reads them, checked by its rules and KubeRay's, and sized."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import pattern_of
from rayllm_ctl.model.plan.llm_fields import LLMFields
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.serveconfig import document, kuberay, llm, schema
from rayllm_ctl.serveconfig.document import Document
from rayllm_ctl.serveconfig.placeholders import placeholders
from rayllm_ctl.serveconfig.shapes import IGNORED, Report


@dataclass(frozen=True)
class ServeConfig:
    """A valid configuration as KubeRay should get it. notes: what to know of it, each with its line. place: a problem
    of it as text, with its line; lines: several, in their order in the file."""

    data: dict[str, Any]
    proxies: ServeProxies
    notes: tuple[str, ...]
    place: Callable[[Problem], str]
    lines: Callable[[Iterable[Problem]], Iterable[str]]


def read_serve_config(text: str, source: str, fields: LLMFields | None = None) -> ServeConfig:
    """The configuration of `text`; `source` is what messages call it. UsageError with every problem and its line.

    fields: what the version of Ray Serve LLM in the image takes; None: no application with models is looked into.
    """
    read = document.read_serve_document(text, source)
    found = schema.check_schema(read.data)
    if not found.problems and fields is not None:
        for index, application in enumerate(read.data["applications"]):
            llm.check_llm(application, ("applications", index), fields, found)
    _placeholders(read.data, found)
    if found.problems:
        raise _rejected(read, found.problems)
    data, proxies = kuberay.adapt(read.data, found)
    if found.problems:
        raise _rejected(read, found.problems)
    return ServeConfig(
        data, proxies, tuple(_lines(read, (*read.notes, *found.notes))), read.place, partial(_lines, read)
    )


def _placeholders(data: Any, found: Report) -> None:
    """Report what a template has left. Nothing else is said of it: a model is planned by its values."""
    applications = data.get("applications") if isinstance(data, dict) else None
    planned = {
        ("applications", index)
        for index, application in enumerate(applications if isinstance(applications, list) else ())
        if isinstance(application, dict) and pattern_of(application) is not None
    }
    for one in placeholders(data):
        if one.path[:2] in planned:
            found.problems = [problem for problem in found.problems if problem.path != one.path]
            found.reject(one.path, one.message, one.hint)
        else:
            found.note(one.path, one.message, one.hint)


def _rejected(read: Document, problems: Iterable[Problem]) -> UsageError:
    found = sorted(problems, key=lambda problem: read.line(problem.path))
    several = len(found) > 1
    hints = [
        f"line {read.line(problem.path)}: {problem.hint}" if several else problem.hint
        for problem in found
        if problem.hint
    ]
    return UsageError("\n".join(read.place(problem) for problem in found), hint=tuple(dict.fromkeys(hints)))


def _lines(read: Document, notes: Iterable[Problem]) -> Iterable[str]:
    for note in sorted(notes, key=lambda note: read.line(note.path)):
        yield read.place(note) + (f" ({note.hint})" if note.hint else "")


def check_applications(data: dict[str, Any], place: Callable[[Problem], str]) -> tuple[str, ...]:
    """What to know of applications that stand in another file, whose problems `place` writes. UsageError with all of
    them, and with the fields that Ray would ignore."""
    found = schema.check_schema(data)
    if not found.problems:
        kuberay.adapt(data, found)
    problems = [*found.problems, *(note for note in found.notes if note.message == IGNORED)]
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        raise UsageError("\n".join(map(place, problems)), hint=tuple(hints))
    return tuple(map(place, found.notes))

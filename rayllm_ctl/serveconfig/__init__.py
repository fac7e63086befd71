"""Serve configuration files: read as Ray reads them, checked by its rules and KubeRay's, and sized."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.problems import Problem
from rayllm_ctl.model.serveoptions import ServeProxies
from rayllm_ctl.serveconfig import document, kuberay, schema
from rayllm_ctl.serveconfig.document import Document
from rayllm_ctl.serveconfig.shapes import IGNORED


@dataclass(frozen=True)
class ServeConfig:
    """A valid configuration as KubeRay should get it. notes: what to know of it, each with its line."""

    data: dict[str, Any]
    proxies: ServeProxies
    notes: tuple[str, ...]


def read_config(text: str, source: str) -> ServeConfig:
    """The configuration of `text`; `source` is what messages call it. UsageError with every problem and its line."""
    read = document.read(text, source)
    found = schema.check(read.data)
    if found.problems:
        raise _rejected(read, found.problems)
    data, proxies = kuberay.adapt(read.data, found)
    if found.problems:
        raise _rejected(read, found.problems)
    return ServeConfig(data, proxies, tuple(_lines(read, (*read.notes, *found.notes))))


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
    found = schema.check(data)
    if not found.problems:
        kuberay.adapt(data, found)
    problems = [*found.problems, *(note for note in found.notes if note.message == IGNORED)]
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        raise UsageError("\n".join(map(place, problems)), hint=tuple(hints))
    return tuple(map(place, found.notes))

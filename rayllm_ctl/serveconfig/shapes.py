"""Rules for values as pydantic's lax mode applies them to JSON, with every problem at its path.

A rule is a function of a value, its path and the report. Ray's schemas take "8000" for an integer and ignore fields
that they do not know; what they ignore is noted, since a misspelled option does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.text.problems import Path, Problem, quoted

IGNORED = "unknown field: Ray ignores it"
"""What is noted of a field that Ray does not know."""


@dataclass
class Report:
    """What was found: `problems` make the file invalid, `notes` are for the user to know."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def reject(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(Problem(path, message, hint))

    def note(self, path: Path, message: str, hint: str = "") -> None:
        self.notes.append(Problem(path, message, hint))


Rule = Callable[[Any, Path, Report], None]

_WORDS = {**dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True)} | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)


def anything(_value: Any, _path: Path, _report: Report) -> None:
    """Any value."""


def text(value: Any, path: Path, report: Report) -> None:
    """A string; numbers and booleans are not taken for one."""
    if not isinstance(value, str):
        hint = "quote it" if isinstance(value, (bool, int, float)) else ""
        report.reject(path, f"expected a string, found {shown(value)}", hint)


def boolean(value: Any, path: Path, report: Report) -> None:
    """true or false, or what pydantic takes for them."""
    if isinstance(value, str):
        fits = value.lower() in _WORDS
    else:
        fits = isinstance(value, (bool, int, float)) and value in (0, 1)
    if not fits:
        report.reject(path, f"expected true or false, found {shown(value)}")


def mapping(value: Any, path: Path, report: Report) -> None:
    """Any mapping."""
    if not isinstance(value, dict):
        report.reject(path, f"expected a mapping, found {shown(value)}")


def as_number(value: Any) -> float | None:
    """The number that pydantic takes `value` for; None if it takes it for none."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def number(*, at_least: float | None = None, above: float | None = None, at_most: float | None = None) -> Rule:
    """A number within bounds."""

    def rule(value: Any, path: Path, report: Report) -> None:
        found = as_number(value)
        if found is None:
            report.reject(path, f"expected a number, found {shown(value)}")
        else:
            _in_bounds(found, value, path, report, at_least, above, at_most)

    return rule


def integer(*, at_least: int | None = None, at_most: int | None = None, strict: bool = False) -> Rule:
    """A whole number within bounds. strict: no other spelling of it."""

    def rule(value: Any, path: Path, report: Report) -> None:
        found = as_number(value)
        other_form = isinstance(value, bool) or not isinstance(value, int)
        whole = isinstance(found, int) or (found is not None and found.is_integer())
        if found is None or not whole or (strict and other_form):
            report.reject(path, f"expected an integer, found {shown(value)}")
        else:
            _in_bounds(found, value, path, report, at_least, None, at_most)

    return rule


def one_of(*words: str) -> Rule:
    """One of the words, as they are written."""

    def rule(value: Any, path: Path, report: Report) -> None:
        if value not in words or not isinstance(value, str):
            report.reject(
                path,
                f"{shown(value)} is not supported (supported values: {', '.join(words)})",
                did_you_mean(str(value), words),
            )

    return rule


def nullable(rule: Rule) -> Rule:
    """null, or what `rule` takes."""

    def either(value: Any, path: Path, report: Report) -> None:
        if value is not None:
            rule(value, path, report)

    return either


def items(rule: Rule) -> Rule:
    """A list of what `rule` takes."""

    def each(value: Any, path: Path, report: Report) -> None:
        if not isinstance(value, list):
            report.reject(path, f"expected a list, found {shown(value)}")
            return
        for index, item in enumerate(value):
            rule(item, (*path, index), report)

    return each


def entries(rule: Rule) -> Rule:
    """A mapping with values that `rule` takes."""

    def each(value: Any, path: Path, report: Report) -> None:
        if not isinstance(value, dict):
            report.reject(path, f"expected a mapping, found {shown(value)}")
            return
        for key, item in value.items():
            rule(item, (*path, key), report)

    return each


def section(
    fields: Mapping[str, Rule],
    *,
    required: Iterable[str] = (),
    closed: bool = False,
    then: Rule = anything,
    unknown: str = "unknown field",
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> Rule:
    """A mapping with these fields. closed: others are rejected, as Ray does in some sections; the rest it ignores.

    then: what has to hold between the fields, checked where each of them is valid. unknown: what is said of another
    field. elsewhere: hints for fields that belong to another section.
    """

    def rule(value: Any, path: Path, report: Report) -> None:
        if not isinstance(value, dict):
            report.reject(path, f"expected a mapping, found {shown(value)}")
            return
        before = len(report.problems)
        for key, item in value.items():
            if key in fields:
                fields[key](item, (*path, key), report)
                continue
            hint = did_you_mean(key, fields) if key not in elsewhere else elsewhere[key]
            if closed:
                report.reject((*path, key), unknown, hint)
            else:
                report.note((*path, key), IGNORED, hint)
        for key in required:
            if key not in value:
                report.reject((*path, key), "required field is missing")
        if len(report.problems) == before:
            then(value, path, report)

    return rule


def shown(value: Any) -> str:
    """A value as an error names it: itself where it is short, else what kind of thing it is."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return quoted(value) if len(value) <= 40 else "a string"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _in_bounds(
    found: float, value: Any, path: Path, report: Report, at_least: float | None, above: float | None,
    at_most: float | None,
) -> None:  # fmt: skip
    if at_least is not None and not found >= at_least:  # as for pydantic, NaN is within no bounds
        report.reject(path, f"must be at least {at_least}, not {shown(value)}")
    elif above is not None and not found > above:
        report.reject(path, f"must be greater than {above}, not {shown(value)}")
    elif at_most is not None and not found <= at_most:
        report.reject(path, f"must be at most {at_most}, not {shown(value)}")

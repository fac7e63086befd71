"""A rule of a custom resource in CEL, and what the rules have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class CelRule(NamedTuple):
    """expression: of a section or a field, `self`. message: as an error of the reader. path: the field at fault, as
    ".name", or "" for the section itself."""

    expression: str
    message: str
    path: str = ""

    def to_json(self) -> dict[str, Any]:
        found = {"rule": self.expression, "message": self.message}
        return {**found, "fieldPath": self.path} if self.path else found


CelRules = Mapping[type | tuple[type, str], tuple[CelRule, ...]]
"""By the class of the section, or by that and the name of the field."""


def has(path: str, of: str = "self") -> str:
    """Whether a field is given, and every section above it: has(self.a) && has(self.a.b)."""
    parts = path.split(".")
    return " && ".join(f"has({of}.{'.'.join(parts[: end + 1])})" for end in range(len(parts)))


def value(path: str, default: str, of: str = "self") -> str:
    """A field, or its default."""
    return f"({has(path, of)} ? {of}.{path} : {default})"


def some(path: str, of: str = "self") -> str:
    """Whether a list or a string is given and not empty."""
    return f"{has(path, of)} && size({of}.{path}) > 0"


def unless(condition: str, *paths: str, of: str = "self") -> str:
    """None of the fields is given where `condition` is true. Those of lists end in "[]", and may be empty."""
    given = [some(path.removesuffix("[]"), of) if path.endswith("[]") else has(path, of) for path in paths]
    return f"!({condition}) || !({' || '.join(f'({one})' for one in given)})"


def by_default(path: str, default: str, of: str = "self") -> str:
    """A field is not given, or has its default."""
    return f"{value(path, default, of)} == {default}"


def count_of(names: Iterable[str]) -> str:
    """How many of the fields are given."""
    return f"[{', '.join(f'has(self.{name})' for name in names)}].filter(given, given).size()"

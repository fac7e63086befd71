"""Reading of manifests whose shape a schema has checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.model.text.patterns import DNS_SUBDOMAIN, LABEL_VALUE
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")


def section(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The mapping at `names`; empty if there is none."""
    for name in names:
        inner = value.get(name)
        value = inner if isinstance(inner, Mapping) else {}
    return value


def items(value: Mapping[str, Any], *names: str) -> Sequence[Mapping[str, Any]]:
    """The list of mappings at `names`; empty if there is none."""
    *way, last = names
    found = section(value, *way).get(last)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def name_problem(value: str, limit: int, path: Path) -> Iterator[Problem]:
    """Whether `value` is a DNS-1035 label of at most `limit` characters."""
    if len(value) > limit:
        yield Problem(path, f"must be no more than {limit} characters, not {len(value)}")
    if not _DNS_1035.fullmatch(value):
        yield Problem(path, f"{quoted(value)} is not a valid DNS-1035 label (lower-case letters, digits and '-')")


def label_problems(labels: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Keys and values that Kubernetes does not accept as labels."""
    for key, value in labels.items():
        prefix, separator, name = key.rpartition("/")
        if not _KEY_NAME.fullmatch(name) or (separator and (len(prefix) > 253 or not DNS_SUBDOMAIN.fullmatch(prefix))):
            yield Problem((*path, key), "not a valid label key")
        if isinstance(value, str) and not LABEL_VALUE.fullmatch(value):
            yield Problem((*path, key), f"{quoted(value)} is not a valid label value")


def at_least(value: Any, least: int, path: Path) -> Iterator[Problem]:
    """Whether a number, where there is one, is not less than `least`."""
    if isinstance(value, int) and value < least:
        yield Problem(path, f"must be at least {least}, not {value}")

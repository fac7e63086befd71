"""Limits and shapes of single values, of which those of the fields are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.text import patterns
from rayllm_ctl.model.text.lengths import DISTRIBUTION
from rayllm_ctl.model.text.patterns import Pattern

Constraints = Mapping[str, Any]

LARGEST_INTEGER = 2**31 - 1
"""The largest integer of most fields, as in Kubernetes."""

TEXT: Constraints = {"maxLength": 1024}
ITEMS, PROPERTIES = 64, 128
"""Of strings, lists and mappings without a limit of their own."""


def between(least: float, most: float = LARGEST_INTEGER) -> Constraints:
    return {"minimum": least, "maximum": most}


UNITS: Mapping[Unit, Constraints] = {
    Unit.SECONDS: {"maxLength": 32, **between(0), "pattern": r"^(0|([0-9]+(\.[0-9]+)?(ms|h|m|s))+)$"},
    Unit.QUANTITY: {
        "maxLength": 32,
        "minimum": 0,
        "pattern": r"^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$",
    },
    Unit.LENGTHS: {"maxLength": 64, **between(1), "pattern": f"^(?:{DISTRIBUTION.expression})$"},
}
"""Each is a string or a whole number. OpenAPI has no union with numbers that have a fraction."""

FREE: Constraints = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 256}
"""Data that is passed on without being interpreted."""


def shape(pattern: Pattern, longest: int) -> Constraints:
    """A string of this shape, which a regular expression of Go (RE2) reads as Python does, but for digits and letters
    of other scripts."""
    return {"maxLength": longest, "pattern": f"^(?:{pattern.expression})$"}


LABEL_KEY = Pattern(rf"(?:{patterns.DNS_SUBDOMAIN.expression}/)?[A-Za-z0-9](?:[-._A-Za-z0-9]{{0,61}}[A-Za-z0-9])?")
"""A name of at most 63 characters, with or without a DNS prefix."""

_LETTER, _OTHER = r"[^/\x00-\x1f\x7f-\x9f]", r"[^/.\x00-\x1f\x7f-\x9f]"
PART = rf"/(?:{_OTHER}{_LETTER}*|\.{_OTHER}{_LETTER}*|\.\.{_LETTER}+)"

OBJECT = shape(patterns.DNS_SUBDOMAIN, 253)
IMAGE_REFERENCE = shape(patterns.IMAGE, 1024)
SET: Constraints = {"x-kubernetes-list-type": "set"}

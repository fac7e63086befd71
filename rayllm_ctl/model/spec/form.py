"""Spec-file spelling of values (durations, quantities), and types that several sections share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, NamedTuple

from rayllm_ctl.frozen import dataclass


class Unit(Enum):
    """How a spec file may write a value: a Go duration or a number of seconds; a quantity as a string or a number; a
    number of tokens, or a string with their distribution."""

    SECONDS = "seconds"
    QUANTITY = "quantity"
    LENGTHS = "lengths"


SECONDS, QUANTITY, LENGTHS = Unit.SECONDS, Unit.QUANTITY, Unit.LENGTHS


class Wrapped(NamedTuple):
    """The value stands in a mapping with this single key, as in Kubernetes' volume sources."""

    key: str


class Instead(NamedTuple):
    """The field stands in place of others of its section: a file has it or them, and reading it sets them as well."""

    fields: tuple[str, ...]


@dataclass(frozen=True)
class SecretKey:
    """One key of a Secret in the service's namespace: a reference, never the value."""

    name: Annotated[str, "Name of the Secret."]
    key: Annotated[str, "Key in the Secret."]

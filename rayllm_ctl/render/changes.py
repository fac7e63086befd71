"""What patches make of an object, as plain changes that Helm's templates can repeat.

Helm has neither merge patches nor JSON Patch. What they come to is known when the values are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class Change:
    """One change of a laid out object, in a mapping. Changes are applied in their order."""

    op: Annotated[Literal["set", "append", "remove"], "set a field, append items to a list, remove a field."]
    path: Annotated[tuple[Any, ...], "Keys, and positions in lists, that lead to the field."]
    value: Annotated[Any, "What is set, or the items that are appended."] = None


def changes(old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Iterator[Change]:
    """The changes that make `new` of `old`."""
    for key in sorted({*old, *new}):
        at = (*path, key)
        if key not in new:
            yield Change("remove", at)
        elif key not in old:
            yield Change("set", at, new[key])
        else:
            yield from _changed(old[key], new[key], at)


def _changed(old: Any, new: Any, at: tuple[Any, ...]) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from changes(old, new, at)
    elif _mappings(old) and _mappings(new) and len(old) <= len(new):
        for position, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from changes(one, other, (*at, position))
        if len(new) > len(old):
            yield Change("append", at, new[len(old) :])
    elif type(old) is not type(new) or old != new:
        yield Change("set", at, new)


def _mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)

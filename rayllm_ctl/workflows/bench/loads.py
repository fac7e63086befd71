"""Compare the loads of two results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_STATED = ("prompts", "request", "startedAt", "versions")
"""Keys that results of older releases lack."""

_AMOUNT = frozenset({"requests", "durationSeconds", "warmup", "timeoutSeconds", "prompts.seed"})
"""Keys that may differ: the length of a load, and the seed of its prompts. Others make it a different load."""


def load_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[bool | None, list[str]]:
    """Whether the loads of two results are the same (None: unknown, as one is not complete), and notes."""
    same: bool | None = True
    notes: list[str] = []
    for label, result in (("first", first), ("second", second)):
        if any(name not in result for name in _STATED):
            same = None
            notes.append(
                f"the {label} is from an older release and lacks lengths, seed, date and versions: "
                "whether its load is the same is unknown"
            )
    for name, before, after in _changed(first, second, ("load", "prompts", "request"), "not set"):
        name = name.removeprefix("load.")
        notes.append(f"the loads differ: {name} is {before} in the first and {after} in the second")
        same = same if name in _AMOUNT else False
    for name, before, after in _changed(first, second, ("versions",), "unknown"):
        name = name.removeprefix("versions.")
        notes.append(f"the versions differ: {name} is {before} in the first and {after} in the second")
    models = [", ".join(result.get("models") or ()) for result in (first, second)]
    if all(models) and models[0] != models[1]:
        notes.append(f"the models differ: {models[0]} in the first and {models[1]} in the second")
    return same, notes


def _changed(
    first: Mapping[str, Any], second: Mapping[str, Any], sections: tuple[str, ...], absent: str
) -> Iterator[tuple[str, str, str]]:
    """Path and both values of each difference in sections that both have."""
    for section in sections:
        before, after = first.get(section), second.get(section)
        if before is None or after is None:
            continue
        for name in sorted({*before, *after}):
            pair = before.get(name), after.get(name)
            if pair[0] != pair[1]:
                before_text, after_text = (absent if value is None else _text(value) for value in pair)
                yield f"{section}.{name}", before_text, after_text


def _text(value: Any) -> str:
    """A value in a sentence: lengths as they are given to --input-tokens."""
    if isinstance(value, Mapping) and "kind" in value:
        numbers = (value.get(name) for name in ("low", "sigma", "high"))
        return ":".join(str(field) for field in (value["kind"], *numbers) if field is not None).removeprefix("fixed:")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

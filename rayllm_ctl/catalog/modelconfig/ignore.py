"""Which modules a quantized checkpoint leaves alone: the ignore lists of the quantization formats."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from rayllm_ctl.errors import UsageError

_PREFIXES = (
    "model.language_model.model.", "language_model.model.", "model.language_model.", "language_model.",
    "thinker.model.", "llm.model.", "llm.", "model.", "backbone.", "transformer.",
)  # fmt: skip
"""Where checkpoints put the decoder. Names here start below them: layers.0.self_attn.q_proj."""

_LONGEST_PATTERN = 1000


def below(name: str) -> str:
    """A module's name without the path to the decoder."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


class Ignored:
    """The modules of one ignore list. Entries: full names, parts of names, shell wildcards, `re:` expressions.

    substrings: texts that ignore a module wherever they stand in vLLM's name of it.
    """

    def __init__(self, entries: Iterable[str], substrings: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._parts: set[str] = set()
        wildcards: list[str] = []
        self._expressions: list[re.Pattern[str]] = []
        for entry in entries:
            if not entry or len(entry) > _LONGEST_PATTERN:
                continue
            if entry.startswith("re:"):
                self._expressions.append(_compiled(entry[3:]))
            elif "*" in entry or "?" in entry:
                wildcards.append(fnmatch.translate(below(entry)))
            elif "." in entry:
                self._names.add(below(entry).removesuffix("."))
            else:
                self._parts.add(entry)
        if wildcards:
            self._expressions.append(_compiled("|".join(wildcards)))
        self._substrings = tuple(text for text in substrings if text and len(text) <= _LONGEST_PATTERN)
        by_name = any("layers." in name for name in (*self._names, *self._substrings))
        self.by_layer = by_name or bool(self._expressions)
        """Whether layers of one kind may differ."""

    def __contains__(self, name: str) -> bool:
        """`name` is below the decoder's path (layers.0.self_attn.q_proj, lm_head, vision_tower...)."""
        segments = name.split(".")
        if not self._parts.isdisjoint(segments):
            return True
        if self._names and any(".".join(segments[:end]) in self._names for end in range(1, len(segments) + 1)):
            return True
        return any(
            expression.match(candidate)
            for expression in self._expressions
            for candidate in (name, "model." + name, "language_model.model." + name)
        )

    def has_part_of(self, name: str) -> bool:
        """Whether one of the substrings stands in the name, with the path to the decoder in either of its forms."""
        return any(
            text in candidate
            for text in self._substrings
            for candidate in ("language_model.model." + name, "model.language_model." + name)
        )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"config.json: the quantization's ignore list has an invalid expression: {error}") from error

"""Which modules a quantized checkpoint leaves alone: the ignore lists of the quantization formats."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from rayllm_ctl.catalog.modelconfig.expressions import BoundedExpression
from rayllm_ctl.errors import UsageError

_PREFIXES = (
    "model.language_model.model.", "language_model.model.", "model.language_model.", "language_model.",
    "thinker.model.", "llm.model.", "llm.", "model.", "backbone.", "transformer.",
)  # fmt: skip
"""Where checkpoints put the decoder. Names here start below them: layers.0.self_attn.q_proj."""

_LONGEST_PATTERN = 4000
_MOST_PATTERNS = 10_000
MOST_RULES = 4096
"""Of one config.json that name modules by patterns."""


def below(name: str) -> str:
    """A module's name without the path to the decoder."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


class Ignored:
    """The modules of one ignore list. Entries: full names, parts of names, shell wildcards, `re:` expressions.

    substrings: texts that ignore a module wherever they stand in vLLM's name of it. exact: full names, which stand for
    nothing below them.
    """

    def __init__(self, entries: Iterable[str] = (), substrings: Iterable[str] = (), exact: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._parts: set[str] = set()
        wildcards: list[str] = []
        self._expressions: list[BoundedExpression] = []
        for entry in entries:
            if len(entry) > _LONGEST_PATTERN:
                raise too_large(f"an entry of {len(entry)} characters")
            if not entry:
                continue
            if entry.startswith("re:"):
                self._expressions.append(BoundedExpression(entry[3:]))
            elif "*" in entry or "?" in entry:
                wildcards.append(fnmatch.translate(below(entry)))
            elif "." in entry:
                self._names.add(below(entry).removesuffix("."))
            else:
                self._parts.add(entry)
        if len(wildcards) + len(self._expressions) > _MOST_PATTERNS:
            raise too_large(f"a list of more than {_MOST_PATTERNS} patterns")
        self._exact = frozenset(map(below, exact))
        self._wildcards = re.compile("|".join(wildcards)) if wildcards else None
        self._substrings = tuple(text for text in substrings if text)
        by_name = any("layers." in name for name in (*self._names, *self._substrings))
        self.by_layer = by_name or bool(self._expressions or wildcards or self._exact)
        """Whether layers of one kind may differ."""
        self.cost = sum(expression.cost for expression in self._expressions) + len(wildcards)
        """Of a look-up, in the unit of BoundedExpression.cost."""

    def __contains__(self, name: str) -> bool:
        """`name` is below the decoder's path (layers.0.self_attn.q_proj, lm_head, vision_tower...)."""
        segments = name.split(".")
        if not self._parts.isdisjoint(segments):
            return True
        if self._names and any(".".join(segments[:end]) in self._names for end in range(1, len(segments) + 1)):
            return True
        candidates = (name, "model." + name, "language_model.model." + name)
        if not self._exact.isdisjoint(candidates):
            return True
        if self._wildcards is not None and any(map(self._wildcards.match, candidates)):
            return True
        return any(expression.matches(candidate) for expression in self._expressions for candidate in candidates)

    def has_part_of(self, name: str) -> bool:
        """Whether one of the substrings stands in the name, with the path to the decoder in either of its forms."""
        return any(
            text in candidate
            for text in self._substrings
            for candidate in ("language_model.model." + name, "model.language_model." + name)
        )


def too_large(what: str) -> UsageError:
    """That a config.json has more than is read of what names modules."""
    return UsageError(
        f"config.json: quantization_config has {what}", hint="--model-config FILE    # a copy of config.json without it"
    )

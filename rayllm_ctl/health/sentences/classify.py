"""The cause that an exception's text stands for, and what helps against it."""

from __future__ import annotations

import math
import re

from rayllm_ctl.health.sentences.hub_sentences import hub_address, is_about_the_hub
from rayllm_ctl.health.sentences.sentence import Sentence
from rayllm_ctl.health.sentences.sentences import SENTENCES
from rayllm_ctl.model.text.hint import Hint

_LONGEST = 4000
"""Characters of a text that are read: an exception says at its beginning what it is."""

_GENERIC = Sentence("ApplicationFailed", re.compile(""))


def find_sentence(text: str, frames: str = "") -> tuple[Sentence, re.Match[str]]:
    """The sentence that an exception's text stands for. frames: files and functions of its traceback.

    One of no special meaning is ApplicationFailed, without hints.
    """
    flat = " ".join(text[:_LONGEST].split())
    for one in SENTENCES:
        if one.stage is not None and not one.stage.search(frames):
            continue
        found = one.pattern.search(flat)
        if found is not None and (not one.of_hub or is_about_the_hub(flat, frames)):
            return one, found
    match = _GENERIC.pattern.search(flat)
    assert match is not None  # the empty pattern
    return _GENERIC, match


def classify(text: str, frames: str = "") -> str:
    """The cause code of an exception's text."""
    return find_sentence(text, frames)[0].code


def may_pass(text: str, frames: str = "") -> bool:
    """Whether the next try may not meet the exception: another process on the GPU may just be ending."""
    return find_sentence(text, frames)[0].passes


def sentence_hints(text: str, frames: str = "", **values: str) -> tuple[Hint, ...]:
    """What helps against an exception, by its sentence; empty if only its code says what does."""
    sentence, found = find_sentence(text, frames)
    known = {**values, **_derived(found)}
    hints = []
    for template in sentence.hints:
        wanted = set(re.findall(r"\{(\w+)\}", str(template)))
        if wanted <= known.keys():
            hints.append(template.format(**known))
    return tuple(hints)


def _derived(found: re.Match[str]) -> dict[str, str]:
    """Figures for hints, from those of a sentence."""
    groups = {name: value for name, value in found.groupdict().items() if value}
    figures = {
        "address": groups.get("hub") or hub_address(found.string),
        "context": groups.get("longest") or groups.get("tokens") or "TOKENS",
        "utilization": "FRACTION",
        "fewer": "N",
        "blocks": groups.get("blocks", "N"),
    }
    if "free" in groups and float(groups["total"]):
        figures["utilization"] = f"{math.floor(float(groups['free']) / float(groups['total']) * 100) / 100:.2f}"
    if "seqs" in groups:
        figures["fewer"] = str(max(1, int(groups["seqs"]) // 2))
    return {**groups, **figures}

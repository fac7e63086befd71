"""A sentence that a library writes when a start fails."""

from __future__ import annotations

import re

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.hint import Hint


@dataclass(frozen=True)
class Sentence:
    """What a pattern in an exception's text stands for.

    `stage`: what a function or file of the traceback has to be called for the sentence to count; None: any.

    `hints` are templates: {deploy}, {restart}, {exec}, {ns} and {node} stand for the service, {name} for a group of
    the pattern or a figure worked out from them. A hint with a figure that the sentence lacks is left out.

    `passes`: the next try may not meet it. `of_hub`: it counts only in an exception about the model's hub.
    """

    code: str
    pattern: re.Pattern[str]
    hints: tuple[Hint, ...] = ()
    stage: re.Pattern[str] | None = None
    passes: bool = False
    of_hub: bool = False


def sentence(
    code: str, pattern: str, *hints: Hint, stage: str = "", passes: bool = False, of_hub: bool = False
) -> Sentence:
    """A Sentence from the sources of its patterns, which ignore case."""
    return Sentence(code, re.compile(pattern, re.I), hints, re.compile(stage, re.I) if stage else None, passes, of_hub)

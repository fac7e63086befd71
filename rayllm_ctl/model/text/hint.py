"""What to type next."""

from __future__ import annotations

import re
from dataclasses import field

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class Hint:
    """What helps. `command`: what to type, also a flag to add; `remark`: about it, or in place of it."""

    command: str | None = field(default=None, metadata=OMIT_NONE)
    remark: str | None = field(default=None, metadata=OMIT_NONE)

    def __str__(self) -> str:
        """As text that can be pasted: the remark is a comment to a shell."""
        return "    # ".join(text for text in (self.command, self.remark) if text)

    def format(self, **values: str) -> Hint:
        """The hint of a template: values take the place of their names in braces."""
        return Hint(*(text and text.format(**values) for text in (self.command, self.remark)))


_COMMAND = re.compile(r"(?:rayllm-ctl|kubectl|helm) |--[a-z]")


def read_hint(text: str) -> Hint:
    """The hint of an error, which has hints as text."""
    command, separator, remark = text.partition("    # ")
    if separator:
        return Hint(command, remark)
    return Hint(text) if _COMMAND.match(text) else Hint(remark=text)

"""A problem of a service, with its path."""

from __future__ import annotations

import json

from rayllm_ctl.frozen import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """`path` leads to it in the spec file: ("spec", "storage", "volumes", 0, "name").

    `message` never repeats a value that may be a secret.
    """

    path: Path
    message: str
    hint: str = ""

    @property
    def where(self) -> str:
        """The path as text: spec.storage.volumes[0].name."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(".")

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def quoted(value: str) -> str:
    """`value` in double quotes, as errors show what a user gave; line breaks, control characters and those that
    turn the direction of text are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)

"""Removes characters from prompts that people cannot see and models should not."""

from __future__ import annotations

import re
import unicodedata

from rayllm_ctl.serving.gateway.settings import Cleaning

# Control characters are C0, DEL and C1, without tab, line feed and carriage return, which are layout, and without NUL.
# Bidi: embeddings, overrides, isolates and marks of Unicode's bidirectional algorithm (UAX 9, table 2.1 to 2.6).
_CLASSES = {
    "nul": "\x00",
    "control": "\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "surrogates": "\ud800-\udfff",
}


class Removal:
    """What the settings remove: the named classes, and `characters` for those that are listed one by one."""

    def __init__(self, settings: Cleaning) -> None:
        self._sets = {name: _CLASSES[name] for name in _CLASSES if name in settings.remove}
        if settings.characters:
            self._sets["characters"] = re.escape(settings.characters)
        self._any = re.compile(f"[{''.join(self._sets.values())}]") if self._sets else None
        groups = (f"(?P<{name}>[{characters}]+)" for name, characters in self._sets.items())
        self._classes = re.compile("|".join(groups))

    def remove(self, text: str, removed: dict[str, int]) -> str:
        """The text without them; `removed` counts them by class."""
        # One set of characters is found many times faster than one of several groups, and few texts have any.
        if self._any is None or not self._any.search(text):
            return text

        def count(match: re.Match[str]) -> str:
            kind = match.lastgroup or ""
            removed[kind] = removed.get(kind, 0) + len(match[0])
            return ""

        return self._classes.sub(count, text)


class Cleaner:
    """Cleans the texts of one request, and counts what it removes."""

    __slots__ = ("_normalization", "_removal", "removed")

    def __init__(self, removal: Removal, normalization: str | None) -> None:
        self._removal = removal
        self._normalization = normalization
        self.removed: dict[str, int] = {}

    def clean(self, text: str) -> str:
        """The text without what is removed."""
        text = self._removal.remove(text, self.removed)
        if self._normalization and not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
            self.removed["normalized"] = self.removed.get("normalized", 0) + 1
        return text

    def header(self) -> bytes:
        """What was removed, such as `control=3,bidi=1`; `normalized` is the number of texts that NFC changed."""
        return ",".join(f"{name}={count}" for name, count in self.removed.items()).encode()

"""Symbols, colours and streams: data goes to standard output, all the rest to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

from rayllm_ctl.frozen import dataclass

Color = Literal["auto", "always", "never"]

_SYMBOLS = {"ok": "✔", "error": "✗", "warning": "‼", "busy": "◎", "step": "►"}
_CODES = {"ok": "32", "error": "31", "warning": "33", "busy": "36", "step": "36", "dim": "2", "bold": "1"}
_ASCII = str.maketrans(
    {
        "✔": "+", "✗": "x", "‼": "!", "◎": "*", "►": ">", "█": "#", "▓": "=", "▒": "%", "░": "-", "▚": "/", "■": "#",
        "·": ".", "├": "|", "└": "`", "│": "|", "─": "-", "×": "x", "→": "->", "…": "...", "–": "-", "µ": "u",
    }
)  # fmt: skip
"""What stands for the characters of the display where the locale's encoding is not UTF-8."""

_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG")
"""The variables that name a locale, the first one that is set counts."""


@dataclass(frozen=True)
class Printer:
    """The style of text on one stream: whether it may have colours, and can move the cursor; ascii: that alone."""

    stream: TextIO
    colors: bool
    terminal: bool
    ascii: bool = False

    @classmethod
    def on(cls, stream: TextIO, color: Color = "auto", environment: Mapping[str, str] | None = None) -> Printer:
        """The style of `stream`. A NO_COLOR that is not empty wins, then `color`, then whether it is a terminal."""
        env = os.environ if environment is None else environment
        terminal = stream.isatty() and env.get("TERM") != "dumb"
        wanted = color == "always" or (color == "auto" and terminal)
        ascii_only = not _takes_utf8(env)
        return cls(stream, wanted and not env.get("NO_COLOR"), terminal and not ascii_only, ascii_only)

    @classmethod
    def for_error(cls, color: Color = "auto") -> Printer:
        """The style of standard error."""
        return cls.on(sys.stderr, color)

    def symbol(self, name: str) -> str:
        """The symbol `name` (ok, error, warning, busy, step), coloured if this stream has colours."""
        return self.paint(_SYMBOLS[name], name)

    def paint(self, text: str, name: str) -> str:
        """`text` in the colour of `name` (a symbol's name, dim or bold)."""
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.colors and text else text

    def width(self, usual: int) -> int:
        """The columns of the terminal; `usual` where there is none."""
        if not self.terminal:
            return usual
        try:
            columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(self.stream.fileno()).columns)
        except (OSError, ValueError):
            return usual
        return max(_NARROWEST, columns)

    def line(self, text: str = "") -> None:
        """Write a line; see `text`."""
        self.text(text + "\n")

    def text(self, text: str) -> None:
        """Write text for people; characters that the encoding of the stream lacks are escaped."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        shown = text.translate(_ASCII) if self.ascii else text
        self.stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        self.stream.flush()

    def error(self, message: str, hints: Sequence[str] = ()) -> None:
        """Print an error; after a blank line its hints."""
        self.line(f"{self.symbol('error')} {message}")
        if hints:
            self.line()
        for number, hint in enumerate(hints):
            self.line(f"{'hint:' if number == 0 else '     '} {hint}")


_NARROWEST = 60
"""Columns that a display takes on any terminal."""


def _takes_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the locale's encoding is UTF-8, which it is taken for if no variable names a locale."""
    name = next((environment[name] for name in _LOCALE if environment.get(name)), "UTF-8")
    return "utf-8" in name.lower() or "utf8" in name.lower()

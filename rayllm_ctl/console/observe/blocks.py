"""A block of text that changes: redrawn on a terminal, elsewhere printed again with the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self

from rayllm_ctl.console.redrawn import Redrawn
from rayllm_ctl.console.style import Printer

_AGE = re.compile(r"\b(\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+[smhd])\b|(?<=\S)  +")
"""Ages, and spaces between columns, which are as wide as the ages below."""


def without_ages(text: str) -> str:
    """What of a text is not only the passing of time."""
    return _AGE.sub(" ", text)


class BlockDisplay:
    """Successive blocks on `style`. live False: never redrawn. wrap: see Redrawn. A context manager, so that a redrawn
    block stays."""

    def __init__(
        self,
        style: Printer,
        errors: Printer,
        live: bool = True,
        clock: Callable[[], datetime] = datetime.now,
        *,
        wrap: bool = False,
    ) -> None:
        self._style, self._errors, self._clock = style, errors, clock
        self._text = ""
        self._redrawn = Redrawn(style, lambda: self._text, wrap) if live and style.terminal else None
        self._noted: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._redrawn:
            self._redrawn.stop()

    def draw(self, text: str) -> None:
        """Draw or print a block."""
        self._text = text.rstrip("\n")
        if self._redrawn:
            self._redrawn.draw()
        else:
            self._style.line(f"{self._clock():%H:%M:%S}\n{self._text}\n")

    def draw_change(self, text: str) -> None:
        """Draw a block; print it only if more than ages has changed since the last one."""
        if self._redrawn or without_ages(text.rstrip("\n")) != without_ages(self._text):
            self.draw(text)

    def tell(self, line: str) -> None:
        """Print a line on standard error; on a terminal above the redrawn block."""
        if self._redrawn and self._errors.terminal:
            self._redrawn.print(line)
        else:
            self._errors.line(line)

    def note(self, problems: Iterable[str]) -> None:
        """Tell those problems that are new."""
        for problem in problems:
            if problem not in self._noted:
                self._noted.add(problem)
                self.tell(problem)

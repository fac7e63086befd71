"""Rows with a label in front, wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rayllm_ctl.console.style import Printer

WIDTH = 100
LABEL = 11
"""Columns of the label, which is indented by two."""


def labelled(rows: list[tuple[str, str]], width: int = WIDTH, style: Printer | None = None) -> Iterator[str]:
    """Rows of label and text, the text wrapped below itself and the label only where it changes.

    width: in columns. style: that of dimmed labels.
    """
    before = ""
    for label, text in rows:
        shown, before = ("" if label == before else label), label or before
        place = " " * len(dimmed(shown, None))
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=place,
            subsequent_indent=" " * (2 + LABEL + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (dimmed(shown, style) + line.removeprefix(place) for line in lines[:1])
        yield from lines[1:]


def dimmed(label: str, style: Printer | None) -> str:
    """A label as it stands in front of its row."""
    text = f"{label:<{LABEL}}"
    return f"  {style.paint(text, 'dim') if style and label else text}"

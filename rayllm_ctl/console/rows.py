"""Rows with a label in front, wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

WIDTH = 100
LABEL = 11
"""Columns of the label, which is indented by two."""


def labelled(rows: list[tuple[str, str]], width: int = WIDTH) -> Iterator[str]:
    """Rows of label and text, the text wrapped below itself and the label only where it changes. width: in columns."""
    before = ""
    for label, text in rows:
        shown, before = ("" if label == before else label), label or before
        indent = " " * (2 + LABEL)
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=f"  {shown:<{LABEL}}",
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )

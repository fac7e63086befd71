"""The settings as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class SettingRow:
    """A setting. value: None without one. place: the flag, the variable, or the file and its line; None: a default."""

    name: str
    value: str | None
    source: Literal["flag", "variable", "file", "default"]
    place: str | None


def config_table(rows: Sequence[SettingRow]) -> Iterator[str]:
    """A line for each setting."""
    cells = [("SETTING", "VALUE", "SOURCE")]
    cells += [
        (row.name, "-" if row.value is None else row.value, f"{row.source} {row.place or ''}".rstrip()) for row in rows
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(2)]
    for name, value, source in cells:
        yield f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}"

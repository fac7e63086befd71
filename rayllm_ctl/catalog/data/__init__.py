"""The catalog's data files, read as text."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def read_data(file: str) -> str:
    """The text of one data file."""
    return (FOLDER / file).read_text(encoding="utf-8")

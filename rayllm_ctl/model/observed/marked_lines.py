"""Lines `MARK {json}` that the code in the pods logs among those of Ray and of libraries.

Readers ignore fields that they do not know, and lines that are cut off or are not what they claim to be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def read_marked(line: str, mark: str) -> Mapping[str, Any]:
    """The JSON of a line, empty if it has none. A progress bar of a library may stand before `mark`."""
    _, found, written = line.rpartition(mark + "{")
    return leading_json("{" + written) if found else {}


def leading_json(text: str) -> Mapping[str, Any]:
    """The JSON object at the beginning of `text`, empty if there is none."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_number(said: Mapping[str, Any], key: str) -> float | None:
    """A number that is finite and not negative, or None."""
    value = said.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        return None
    return float(value)


def read_count(said: Mapping[str, Any], key: str) -> int:
    """The same as a whole number; 0 if there is none."""
    return int(read_number(said, key) or 0)


def read_text(said: Mapping[str, Any], key: str) -> str:
    """A text; empty if there is none."""
    value = said.get(key)
    return value if isinstance(value, str) else ""

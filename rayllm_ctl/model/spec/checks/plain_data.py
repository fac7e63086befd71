"""Raw parts of a spec, which are passed on unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def is_plain_data(value: Any) -> bool:
    """Whether `value` has a form in JSON: no number that is not finite, no lone surrogate, only text as keys."""
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and is_plain_data(k) and is_plain_data(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain_data(item) for item in value)
    if isinstance(value, str):
        return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)
    return value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))


def any_text(value: Any, test: Callable[[str], bool]) -> bool:
    """Whether any text in `value` passes `test`."""
    if isinstance(value, Mapping):
        return any(any_text(item, test) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(any_text(item, test) for item in value)
    return isinstance(value, str) and test(value)

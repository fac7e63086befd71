"""Plain scalars by the core schema of YAML 1.2, with one meaning in a spec file and on the command line."""

from __future__ import annotations

import math
import re
from typing import Any

MAX_DIGITS = 400

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def parse_scalar(text: str) -> Any:
    """The null, boolean, number or string that `text` is without quotes.

    Raises ValueError for what has no single meaning or no form in JSON: infinities, NaN, and integers with a leading
    zero, which are octal in YAML 1.1 (017 is 15) and decimal in YAML 1.2.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    if not (_INTEGER.fullmatch(text) or _FLOAT.fullmatch(text)):
        return text
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number must have at most {MAX_DIGITS} digits")
    if _LEADING_ZERO.fullmatch(text):
        raise ValueError(f'{text} has a leading zero: write {int(text)}, or "{text}" for a string')
    return _number(text)


def _number(text: str) -> int | float:
    if text.startswith("0o"):
        return int(text[2:], 8)
    if text.startswith("0x"):
        return int(text[2:], 16)
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number

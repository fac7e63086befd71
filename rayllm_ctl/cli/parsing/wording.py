"""The words of Click's messages about a value, as the other messages have them."""

from __future__ import annotations

import re

_WORDINGS = (
    (re.compile(r"'(-[^']*)'"), r"\1"),  # flags stand without quotes
    (re.compile(r"'([^']*)'"), r'"\1"'),
    (re.compile(r"^(\S+) is not a valid (?:boolean\..*|boolean)$", re.S), r"\1 is not true or false"),
    (re.compile(r"is not a valid integer(?: range)?$"), "is not a whole number"),
    (re.compile(r"is not a valid float(?: range)?$"), "is not a number"),
    (re.compile(r"^(\S+) is not in the range x>=(\S+)$"), r"must be at least \2, not \1"),
    (re.compile(r"^(\S+) is not in the range (\S+)<=x<=(\S+)$"), r"must be \2 to \3, not \1"),
    (re.compile(r"^(?:File|Directory|Path) (\".*\" (?:does not exist|is a file|is a directory))$"), r"\1"),
    (re.compile(r"^(?:File|Directory|Path) (\".*\" is not (?:readable|writable))$"), r"\1"),
    (re.compile(r"^Option (\S+) requires an argument$"), r"\1 requires a value"),
    (re.compile(r"^Got unexpected extra arguments? \((.*)\)$"), r"unexpected argument: \1"),
)


def in_our_words(message: str) -> str:
    """`message` of Click without its period, and with our quotes and words."""
    text = message.rstrip(".")
    for pattern, words in _WORDINGS:
        text = pattern.sub(words, text)
    return text

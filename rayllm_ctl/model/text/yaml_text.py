"""Canonical YAML of plain data: the same text for the same data, which every YAML reader takes for the same data.

Readers disagree about plain scalars: YAML 1.1 (Kubernetes) reads y, on, 0o17 and 1e3 as something else than YAML 1.2
(or PyYAML) does. So a string stays unquoted only if its shape is safe under all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@+~-]|:(?=[A-Za-z0-9_/]))*")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?(?:m|[KMGTP]i|[MGTP])|(?:\d+(?:\.\d+)?(?:ms|h|m|s))+")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_FIRST = {"apiVersion": 0, "kind": 1, "name": 2, "metadata": 3, "spec": 4}
_UNSAFE_ASCII = re.compile(r"[^\x20-\x7e]")
_UNSAFE = (
    r"[^\x20-\x7e\xa0-\u200a\u2010-\u2027\u202f-\u205f\u2070-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""What is escaped: what YAML calls unprintable, its further line breaks, and characters that reorder or hide text.

A table of our own, since str.isprintable changes with the Unicode version of each Python. Compiling it takes 5 ms,
which ASCII text does not need.
"""

_SIMPLE_KEY = 1000
"""YAML 1.1 and 1.2 limit a key before `:` to 1,024 characters (libyaml, PyYAML and Go's yaml reject longer ones); a
longer key is written behind `?`, which has no limit."""

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def dump(value: Any, *, sort: bool = True) -> str:
    """One document as block YAML with LF and a newline at the end.

    Keys are sorted, apiVersion, kind, name, metadata and spec first; sort=False keeps their order. Raises ValueError
    for what YAML or JSON cannot hold: NaN, infinities, lone surrogates, keys that are not text, other Python types.
    """
    if isinstance(value, (Mapping, list, tuple)) and value:
        return "\n".join(_block(value, sort)) + "\n"
    return flow(value) + "\n"


def dump_all(documents: Iterable[Any], *, sort: bool = True) -> str:
    """Several documents, separated by `---` lines."""
    return "---\n".join(dump(document, sort=sort) for document in documents)


def flow(value: Any) -> str:
    """`value` on one line: a scalar, or a flow collection with all text in double quotes: JSON, but for long keys.

    Keys are sorted.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pair(_double(key), flow(value[key])) for key in sorted(map(_key, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return _double(value) if isinstance(value, str) else _number(value)


def _block(value: Any, sort: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda k: (_FIRST.get(k, 9), _key(k))) if sort else list(value)
        for key in keys:
            head = _scalar(_key(key))
            if len(head) > _SIMPLE_KEY:
                yield f"? {head}"
                head = ""
            yield from _entry(f"{head}:", value[key], sort)
    else:
        for item in value:
            yield from _item(item, sort)


def _entry(head: str, value: Any, sort: bool) -> Iterator[str]:
    """`head`, and `value` behind it or in the lines below it."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from _indented(_block(value, sort))
    elif isinstance(value, (list, tuple)) and value:
        # Items start below their key, not further in, as kubectl writes them.
        yield head
        yield from _block(value, sort)
    elif isinstance(value, str) and _fits_literal(value):
        body = value.rstrip("\n")
        chomp = {0: "-", 1: ""}.get(len(value) - len(body), "+")
        yield f"{head} |{chomp}"
        lines = value.split("\n")[: -1 if value.endswith("\n") else None]
        yield from _indented(lines)
    else:
        yield f"{head} {_scalar(value)}"


def _item(value: Any, sort: bool) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)) and value:
        first, *rest = _block(value, sort)
        yield f"- {first}"
        yield from _indented(rest)
    else:
        yield from _entry("-", value, sort)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _fits_literal(text: str) -> bool:
    """Whether a literal block keeps `text` as it is, without an indentation indicator."""
    if "\n" not in text or not text.strip("\n") or text[0] in " \n":
        return False
    return all(not _unsafe(line).search(line) and not line.endswith(" ") for line in text.split("\n"))


def _pair(key: str, value: str) -> str:
    return f"? {key} : {value}" if len(key) > _SIMPLE_KEY else f"{key}: {value}"


def _scalar(value: Any) -> str:
    if isinstance(value, (Mapping, list, tuple)) or not isinstance(value, str):
        return flow(value)
    if (_PLAIN.fullmatch(value) and value.lower() not in _WORDS) or _AMOUNT.fullmatch(value):
        return value
    if not _unsafe(value).search(value):
        return "'" + value.replace("'", "''") + "'"
    return _double(value)


def _double(text: str) -> str:
    return '"' + _unsafe(text).sub(_escape, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _unsafe(text: str) -> re.Pattern[str]:
    return _UNSAFE_ASCII if text.isascii() else re.compile(_UNSAFE)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"text holds a lone surrogate (U+{code:04X}), which no file can hold")
    return f"\\u{code:04x}"


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"a key must be text, not {key!r}")
    return key


def _number(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return _float(value)
    raise ValueError(f"{value!r} has no form in YAML and JSON")


def _float(value: float) -> str:
    """With an exponent where Go's JSON has one (below 1e-6, from 1e21 on), and then with a dot: YAML 1.1 takes a number
    with an exponent but without a dot for text."""
    mantissa, separator, exponent = repr(value).partition("e")
    if separator and 1e-6 <= abs(value) < 1e21:
        mantissa, separator = _without_exponent(value, mantissa, int(exponent)), ""
    dotted = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{dotted}e{int(exponent):+d}" if separator else dotted


def _without_exponent(value: float, mantissa: str, exponent: int) -> str:
    """The shortest digits of `value`, whose repr has an exponent, without one."""
    whole, _, fraction = mantissa.partition(".")
    if exponent < 0:
        return f"{value:.{len(fraction) - exponent}f}"
    return whole + fraction + "0" * (exponent - len(fraction))

"""JSON bodies, read more strictly than by the json module: what parsers disagree about is rejected."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from rayllm_ctl.serving.gateway.errors import Rejected, invalid

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse(body: bytes, max_depth: int) -> Any:
    """The value of a body. Raises Rejected: not UTF-8, not JSON, duplicate keys, NaN, Infinity, nested too deeply."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise invalid("The body is not valid UTF-8", code="invalid_json") from None
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:
        where = f" at line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise invalid(f"The body is not valid JSON{where}", code="invalid_json") from None
    # A value is at most as deep as it has opening brackets; few bodies need the second look.
    if body.count(b"{") + body.count(b"[") > max_depth and _depth(value, max_depth) > max_depth:
        raise _too_deep(max_depth)
    return value


def has_escaped_surrogates(body: bytes) -> bool:
    """Whether strings may contain halves of surrogate pairs: UTF-8 itself cannot encode them."""
    return _ESCAPED_SURROGATE.search(body) is not None


def reject_surrogates(value: Any, path: str = "") -> None:
    """Raise Rejected for a string that UTF-8 cannot encode, which would fail wherever it is written."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise invalid("The value contains a lone surrogate", path or None)
    elif isinstance(value, dict):
        for key, item in value.items():
            inside = f"{path}.{key}" if path else key
            reject_surrogates(key, path)
            reject_surrogates(item, inside)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            reject_surrogates(item, f"{path}[{place}]")


def encode(value: Any) -> bytes:
    """A body for the application."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _depth(value: Any, limit: int) -> int:
    level, depth = [value], 0
    while level and depth <= limit:
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return depth
        depth += 1
        level = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
    return depth


def _too_deep(max_depth: int) -> Rejected:
    return invalid(f"The body is nested more than {max_depth} levels deep", code="too_deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise invalid("The body has an object with duplicate keys", name, code="duplicate_key")
    return value


def _constant(_name: str) -> NoReturn:
    raise invalid("The body contains NaN or Infinity, which JSON does not have", code="invalid_json")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise invalid("The body contains a number that is too large", code="invalid_json")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)

"""JSON as a tree that knows its lines.

YAML readers do not accept all of JSON: they reject surrogate pairs (\\ud83d\\ude00), tabs as indentation and keys of
more than 1,024 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.scalars import parse_scalar
from rayllm_ctl.specfile.tree import MAX_DEPTH, Keys, TreeNode

_WORD = r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+'
_SURROGATE = "[\ud800-\udfff]"

Tokens = Iterator[tuple[str, int]]


def is_json(text: str) -> bool:
    """Whether `text` is a JSON object, NaN and infinities (which json.loads would read) aside."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text, parse_constant=_reject)
    except ValueError:
        return False
    except RecursionError:
        return True  # `read` reports the depth
    return True


def read_json(text: str, source: str) -> TreeNode:
    """The document of `text`, for which is_json is true. UsageError, with `source` and the line, for what a spec file
    must not contain."""
    tokens = _tokens(text)
    return _node(next(tokens), tokens, source, 0)


def _reject(constant: str) -> NoReturn:
    raise ValueError(constant)


def _tokens(text: str) -> Tokens:
    line, end = 1, 0
    for match in re.finditer(_WORD, text):
        line += text.count("\n", end, match.start())
        end = match.start()
        yield match.group(), line


def _node(token: tuple[str, int], tokens: Tokens, source: str, depth: int) -> TreeNode:
    text, line = token
    if depth > MAX_DEPTH:
        raise UsageError(f"{source}:{line}: values are nested more than {MAX_DEPTH} levels deep")
    if text == "{":
        return TreeNode(_mapping(tokens, source, depth), line)
    if text == "[":
        items = []
        while (item := next(tokens))[0] != "]":
            items.append(_node(item, tokens, source, depth + 1))
        return TreeNode(items, line)
    return TreeNode(_scalar(text, line, source), line)


def _mapping(tokens: Tokens, source: str, depth: int) -> Keys:
    keys = Keys()
    while (token := next(tokens))[0] != "}":
        text, line = token
        key = _scalar(text, line, source)
        keys.declare(key, line, source)
        keys[key] = _node(next(tokens), tokens, source, depth + 1)
    return keys


def _scalar(text: str, line: int, source: str) -> Any:
    if not text.startswith('"'):
        try:
            return parse_scalar(text)
        except ValueError as error:
            raise UsageError(f"{source}:{line}: {error}") from None
    value = json.loads(text)
    if re.search(_SURROGATE, value):
        raise UsageError(f"{source}:{line}: a string contains a surrogate that is not part of a pair")
    return value

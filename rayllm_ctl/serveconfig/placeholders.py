"""Placeholders of templates that nothing has filled in: Ray would take them for values.

Ray itself expands ${NAME} in the variables of a runtime environment, and chat templates have braces of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.text.problems import Path, Problem, quoted

_ANYWHERE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_.-]*(?::?[-?+=][^}]*)?\}")
_WHOLE = re.compile(
    r"\$\{[^}]+\}|\$[A-Z_][A-Z0-9_]*|\$\([A-Za-z_]\w*\)|\{\{.*\}\}|<[A-Za-z][\w .-]*>|%[A-Z_]\w*%|@[A-Z_]\w*@"
)
_EXPANDED = frozenset({"env_vars", "chat_template"})


def is_reference(value: str) -> bool:
    """Whether a value is that of another variable, which Ray fills in in the pod: ${NAME}."""
    return _ANYWHERE.fullmatch(value.strip()) is not None


def placeholders(value: Any, path: Path = ()) -> Iterator[Problem]:
    """The keys and values below `path` that are placeholders, or contain one."""
    if path and path[-1] in _EXPANDED:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _of_text(key, (*path, key))
            yield from placeholders(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from placeholders(item, (*path, index))
    elif isinstance(value, str):
        yield from _of_text(value, path)


def _of_text(text: str, path: Path) -> Iterator[Problem]:
    found = _ANYWHERE.search(text) or _WHOLE.fullmatch(text.strip())
    if found:
        yield Problem(path, f"the placeholder {quoted(found[0])} was not replaced by a value")

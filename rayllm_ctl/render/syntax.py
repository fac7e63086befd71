"""What a Python file does, apart from how it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of nodes that follow from the others, or say how something is written."""

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def normal_form(text: str) -> str:
    """The syntax tree as text, without comments and docstrings; the same in every version of Python.

    `ast.dump` writes empty fields or leaves them out, and `ast.unparse` chooses quotes, as the version of Python does.
    """
    parts: list[str] = []
    _write(_tree(text), parts)
    return "\0".join(parts)


def imported_modules(text: str, package: str) -> Iterator[str]:
    """What a file imports of `package`, modules and names alike; not what is imported for type checkers alone."""
    for node in _run(_tree(text)):
        if isinstance(node, ast.ImportFrom) and _within(node.module or "", package):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _within(alias.name, package))


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _run(tree: ast.Module) -> list[ast.AST]:
    """The nodes of code that runs."""
    found: list[ast.AST] = [tree]
    for node in found:  # which grows
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                found.append(child)
    return found


def _write(node: ast.AST, parts: list[str]) -> None:
    parts.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        if name in _LEFT_OUT or value is None or value == []:
            continue
        parts.append(name)
        items = value if isinstance(value, list) else [value]
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            items = items[_has_docstring(items) :]
        for item in items:
            if isinstance(item, ast.AST):
                _write(item, parts)
            else:
                parts.append(repr(item))
        parts.append("]")
    parts.append(")")


def _has_docstring(body: list[ast.stmt]) -> bool:
    first = body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)

"""The list of all checks of specs, and the checks themselves as the source has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rayllm_ctl.model.spec.service import API_VERSION

LIST = Path(__file__).parent / "checks.yaml"
SOURCE = Path(__file__).parents[3] / "rayllm_ctl" / "model" / "spec"


class Check(NamedTuple):
    """at: module and function. rule: the message, with {} where it has a value. where: what stops a spec that violates
    it. document: such a spec, None where there is none."""

    at: str
    rule: str
    where: str
    document: dict[str, Any] | None

    def says(self, message: str) -> bool:
        """Whether a problem of the reader is one of this check."""
        pattern = ".*".join(re.escape(part) for part in self.rule.split("{}"))
        return re.fullmatch(pattern, message, re.DOTALL) is not None


def listed() -> list[Check]:
    return [_check(entry) for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))]


def written() -> Iterator[tuple[str, str]]:
    """Module, function and message of every check in the source. What only moves a problem to another path is none."""
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if not isinstance(node, ast.Call) or len(node.args) < 2 or function.name == "_moved":
                    continue
                if isinstance(node.func, ast.Name) and node.func.id == "Problem":
                    yield f"{file.relative_to(SOURCE)} {function.name}", _message(node.args[1])


def _check(entry: dict[str, Any]) -> Check:
    document = None
    if "spec" in entry:
        metadata = {"name": entry.get("name", "q")}
        kind = entry.get("kind", "LLMService")
        document = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": entry["spec"]}
    assert (document is None) == ("why" in entry), entry
    return Check(entry["at"], entry["rule"], entry["where"], document)


def _message(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_message(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"

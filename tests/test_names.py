"""One public name has one meaning: a name at the top of two modules is listed here, or is a mistake."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rayllm_ctl"

CONVENTIONS = {"COMMANDS", "F", "LOG", "ROWS", "T", "command", "logger", "main"}
"""Names that each module of a kind has: its command, its rows, its logger, a type variable."""

SHARED: dict[str, dict[str, int]] = {
    "client": {
        "AUTOSCALER": 4, "Applications": 2, "BATCH": 2, "Bounds": 2, "CLUSTER": 2, "COHERE": 2,
        "DEFAULT": 2, "DEFAULT_SECONDS": 2, "Deployment": 2, "EFFECTS": 2, "Engine": 2, "Found": 3,
        "GRACE_SECONDS": 3, "GROUP": 2, "Gateway": 2, "HEAD": 2, "INGRESS": 2, "KEPT": 2, "KIND": 5, "Keys": 2,
        "LOG_LINES": 3, "LogEncoding": 2, "MAX_BYTES": 3, "MAX_DEPTH": 2, "MIB": 3, "MOUNT_PATH": 2, "OPERATOR": 2,
        "PACKAGE": 2, "PATIENCE": 3, "POLL_SECONDS": 5, "Parallelism": 2, "Pattern": 2, "Pods": 2,
        "Progress": 2, "RAY_CLUSTER": 2, "READY": 3, "Release": 4, "Report": 3, "Results": 2, "SCHEMES": 2,
        "SETTLE": 2, "SLOW_SECONDS": 2, "START_SECONDS": 3, "Spread": 2, "TIMEOUT": 2, "UNSEEN": 2, "Unit": 2,
        "Upgrade": 2, "VERSION": 2, "WAIT_SECONDS": 2, "WIDTH": 3, "applications": 2, "changed": 2, "choose": 2,
        "connect": 3, "deleted": 2, "endpoint": 2, "engine": 2, "explained": 3, "find": 2, "flag": 2, "integer": 2,
        "is_operator": 2, "items": 3, "kind": 2, "label": 3, "mapping": 3, "models": 3, "number": 3,
        "open_stream": 2, "part_of": 2, "place": 3, "plots": 2, "pod_templates": 2, "rejected": 2,
        "replicas": 3, "restart": 2, "resume": 2, "section": 2, "show": 4, "shown": 3, "source": 2, "text": 3,
        "whole_seconds": 2,
    },
    "loadtest": {},
    "serving": {
        "ANONYMOUS": 2, "Answer": 2, "Entry": 2, "INTERVAL_SECONDS": 2, "MODEL": 2, "Output": 2, "PATIENCE": 2,
        "Pairs": 2, "Prompts": 2, "Settings": 2, "Store": 2, "answers": 2, "boolean": 2, "build": 3, "check": 2,
        "integer": 2, "load": 3, "of_engine": 2, "parse": 3, "rewrite": 2,
    },
}  # fmt: skip
"""Names with several definitions, and how many. Entries are removed and lowered; none is added or raised.

What runs in the pods and the load generator are shipped without the rest, so their names are counted by themselves.
"""


def names(file: Path) -> Iterator[str]:
    """The public functions, classes and constants at the top of a module."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def vocabulary(file: Path) -> str:
    package = file.relative_to(PACKAGE).parts[0]
    return package if package in SHARED else "client"


@pytest.mark.parametrize("part", SHARED)
def test_a_name_has_one_definition(part: str) -> None:
    modules = [set(names(file)) for file in PACKAGE.rglob("*.py") if vocabulary(file) == part]
    counts = Counter(name for module in modules for name in module if not name.startswith("_"))
    several = {name: count for name, count in counts.items() if count > 1 and name not in CONVENTIONS}
    new = {name: count for name, count in several.items() if count > SHARED[part].get(name, 1)}
    assert new == {}, "names of another definition; find others"
    gone = {name: count for name, count in SHARED[part].items() if several.get(name, 1) < count}
    assert gone == {}, "fewer definitions than listed; lower or remove the entries"

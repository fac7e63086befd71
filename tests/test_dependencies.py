"""The package as `pip install` leaves it: without the packages of extras."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rayllm_ctl"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

IN_PODS = PACKAGE / "serving"
"""Runs in images that have the extra serving."""

IMPORT_ALL = """
import importlib, json, sys
from importlib.abc import MetaPathFinder

modules, missing = json.loads(sys.stdin.read())

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
failed = {}
for module in modules:
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed[module] = str(error)
print(json.dumps(failed))
"""


def installed_by(requirements: list[str]) -> set[str]:
    """The names of the distributions that `requirements` install, with what these require."""
    found: set[str] = set()
    left = [(Requirement(line), "") for line in requirements]
    while left:
        requirement, extra = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *sorted(requirement.extras)):
            key = f"{canonicalize_name(requirement.name)}[{wanted}]"
            if key in found:
                continue
            found.add(key)
            try:
                lines = distribution(requirement.name).requires or ()
            except PackageNotFoundError:
                continue
            left += [(Requirement(line), wanted) for line in lines]
    return {key.partition("[")[0] for key in found}


def missing_packages(installed: set[str]) -> list[str]:
    """What can be imported here, but not where only `installed` is."""
    return sorted(
        package
        for package, names in packages_distributions().items()
        if package != PACKAGE.name and not installed.intersection(map(canonicalize_name, names))
    )


def failed_imports(modules: list[str], missing: list[str]) -> dict[str, str]:
    """The errors of `modules` in a process without the packages `missing`."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        input=json.dumps([modules, missing]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    found: dict[str, str] = json.loads(ended.stdout)
    return found


def test_every_module_can_be_imported_with_the_dependencies_alone() -> None:
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(PACKAGE.rglob("*.py"))
        if IN_PODS not in file.parents
    ]
    missing = missing_packages(installed_by(PROJECT["dependencies"]))
    assert {"matplotlib", "uvloop", "pytest"} <= set(missing)
    assert failed_imports(modules, missing) == {}


def test_a_missing_package_is_found() -> None:
    found = failed_imports(["rayllm_ctl.loadtest.connection", "rayllm_ctl.loadtest.arrivals"], ["httptools"])
    assert found == {"rayllm_ctl.loadtest.connection": "No module named 'httptools'"}


def imports(tree: ast.AST, guarded: bool = False) -> Iterator[tuple[str, bool]]:
    """The packages that a module imports at run time, by functions too, and whether it expects that one is missing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from ((name.partition(".")[0], guarded) for name in names)
        caught = {ast.unparse(one.type) for one in getattr(node, "handlers", ()) if one.type is not None}
        yield from imports(node, guarded or bool(caught & {"ImportError", "ModuleNotFoundError"}))


def test_importers_of_optional_packages_expect_that_they_are_missing() -> None:
    """Also those inside functions, which no import of the module shows."""
    missing = set(missing_packages(installed_by(PROJECT["dependencies"])))
    modules = [file for file in PACKAGE.rglob("*.py") if IN_PODS not in file.parents]
    found = {(file.name, *one) for file in modules for one in imports(ast.parse(file.read_text(encoding="utf-8")))}
    expected = {(name, package) for name, package, guarded in found if guarded}
    assert ("session.py", "uvloop") in expected
    assert {(name, package) for name, package, _ in found if package in missing} - expected == set()

"""What the documents say is what the code does."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.workflows.setup.rbac import COMMANDS, rules
from tests.docs.pages import PAGES, ROOT


@pytest.mark.parametrize(
    "name",
    [
        "cli_reference.py",
        "operator_rules.py",
        "rbac_reference.py",
        "readme_session.py",
        "reference_tables.py",
        "template_values.py",
    ],
)
def test_what_is_made_from_the_code_is_current(name: str) -> None:
    script = ROOT / "scripts" / name
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def listed(cell: str, names: dict[str, str]) -> set[str]:
    """The rights in a cell of the page of rights; `names`: what the names in it stand for."""
    found: set[str] = set()
    for line in cell.split("<br>"):
        verbs, _, resources = line.rpartition(": ")
        if not verbs:
            found |= listed(names[line], names)
            continue
        kinds = [kind for one in resources.split(", ") for kind in names.get(one, one).split(", ")]
        found |= {f"{verb} {kind}" for verb in verbs.split(", ") for kind in kinds}
    return found


def test_the_page_of_rights_has_those_that_commands_need() -> None:
    text = (ROOT / "docs/reference/rbac.md").read_text(encoding="utf-8").partition("## Commands")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    names = {name: contents for name, contents in rows if name.startswith("*")}
    shown = {command: listed(cell, names) for cells, cell in rows for command in re.findall(r"`([a-z -]+)`", cells)}
    needed = {
        command: {
            f"{verb} `{name}{f'.{group}' if group else ''}`"
            for rule in rules(rights.needed)
            for group, name, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
        }
        for command, rights in COMMANDS.items()
        if rights.needed
    }
    assert shown == needed
    assert not any(right.everywhere for rights in COMMANDS.values() for right in rights.needed)


def tier(file: Path) -> str:
    """Which of `make test` and `make test-slow` runs the tests of a file."""
    source = file.read_text(encoding="utf-8")
    of_all = [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    if any(line.startswith("pytestmark = ") and "mark.slow" in line for line in of_all):
        return "slow"
    return "gate, slow" if "mark.slow" in source else "gate"


def test_every_file_of_end_to_end_tests_is_in_the_table_with_its_tier() -> None:
    page = (ROOT / "docs" / "contributing" / "testing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(\w+\.py)` \| ([a-z, ]+) \| [0-9 +]*\|$", page, re.M)
    assert dict(rows) == {file.name: tier(file) for file in (ROOT / "e2e").glob("test_*.py")} | {"chaos.py": "chaos"}


def column(page: str, heading: str) -> str:
    """The first cells of the rows of the table whose head begins with `heading`."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    return "\n".join(line.split("|")[1] for line in text.splitlines()[2:])


def test_every_command_is_in_the_table_of_the_readme() -> None:
    named = set(re.findall(r"[a-z][a-z-]+", column("README.md", "command")))
    assert {name for section in app.COMMANDS.values() for name in section} - named == set()


def test_every_package_is_in_the_table_of_the_architecture() -> None:
    page = (ROOT / "docs/contributing/architecture.md").read_text(encoding="utf-8")
    packages = {file.parent.name for file in (ROOT / "rayllm_ctl").glob("*/__init__.py")}
    assert packages - set(re.findall(r"`(\w+)/`", column("docs/contributing/architecture.md", "package"))) == set()
    [serving] = [line for line in page.splitlines() if line.startswith("| `serving/`")]
    inside = {file.parent.name for file in (ROOT / "rayllm_ctl/serving").glob("*/__init__.py")}
    assert inside - set(re.findall(r"`(\w+)/`", serving)) == set()


def test_the_tests_of_the_rules_of_the_command_line_exist() -> None:
    page = (ROOT / "docs/contributing/cli-rules.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| \d", line)]
    assert [int(row[1]) for row in rows] == list(range(1, 30))
    for row in rows:
        for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[3]):
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"rule {row[1]}: {file}::{name}"


TEXTS = [
    *PAGES, ROOT / "Makefile", ROOT / "pyproject.toml", *(ROOT / "charts").rglob("*.md"),
    *(file for folder in ("rayllm_ctl", "scripts", "benches", "e2e") for file in (ROOT / folder).rglob("*.py")),
]  # fmt: skip


def test_nobody_is_told_to_install_a_name_that_is_not_ours() -> None:
    """rayllm-ctl is not on PyPI: anybody can register the name there."""
    told = [f.name for f in TEXTS if re.search(r"pip3? install[^\n]*[ '\"]rayllm-ctl\b", f.read_text(encoding="utf-8"))]
    assert told == []


def test_every_measured_row_has_a_source_that_can_be_looked_up() -> None:
    """Rows of tier "wide" count for nothing, and say what is not known of them."""
    rows = json.loads((ROOT / "tests/data/measured.json").read_text(encoding="utf-8"))
    named = re.compile(r"^(github |https://|[\w.-]+/[\w.-]+[ #]|measured, |blog of )")
    assert [row["source"] for row in rows if row["tier"] == "core" and not named.match(row["source"])] == []
    assert [row["source"] for row in rows if not named.match(row["source"]) and "not known" not in row["note"]] == []


PACKAGES = "|".join(file.parent.name for file in (ROOT / "rayllm_ctl").glob("*/__init__.py"))
PATH = re.compile(
    rf"\b(?:rayllm_ctl|scripts|benches)/[\w/.-]*\w|(?<![\w/.-])(?:{PACKAGES})/[\w/]+\.py\b"
    rf"|(?<![\w/.])(?:rayllm_ctl\.)?(?:{PACKAGES})(?:\.[a-z_]+)+(?=\.[A-Z]\w+)"
)
"""As a path, that of a module below a package, or the dotted name of a module before one of its names."""


def test_files_that_texts_name_exist() -> None:
    missing = {
        (file.name, name)
        for file in TEXTS
        if file.name != "CHANGELOG.md"
        for name in PATH.findall(file.read_text(encoding="utf-8"))
        for path in (name if "/" in name else name.replace(".", "/"),)
        if not any((root / path).exists() or list(root.glob(f"{path}.*")) for root in (ROOT, ROOT / "rayllm_ctl"))
    }
    assert missing == set()


def test_pages_that_code_and_messages_name_exist() -> None:
    """Such as `see docs/how-to/bench.md` in a hint, and the schema that a spec file names."""
    others = {"accuracy.md"}  # its sources are in other repositories
    files = [*TEXTS, *(ROOT / "charts").rglob("*.yaml"), *(ROOT / "manifests").rglob("*.yaml")]
    page = re.compile(r"(?<![\w./-])docs/[\w/.-]+\.(?:md|json|svg)\b")
    texts = {file: file.read_text(encoding="utf-8") for file in files if file.name not in others}
    named = {(file.name, name) for file, text in texts.items() for name in page.findall(text)}
    assert len(named) > 20
    assert {(file, name) for file, name in named if not (ROOT / name).exists()} == set()


def test_the_readme_has_the_accuracy_that_was_found() -> None:
    table = (ROOT / "docs/contributing/accuracy.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| (weights|KV cache) \| (\d+ \| [\d.]+ %)", table, re.M))
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    stated = re.search(r"([\d.]+ %) for weights and ([\d.]+ %) for the KV cache \(\[(\d+) rows\]", text)
    assert stated is not None
    weights, cache, rows = stated.groups()
    assert found == {"weights": f"{rows} | {weights}", "KV cache": f"{rows} | {cache}"}

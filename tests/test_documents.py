"""The JSON schemas of what commands print are current, and reject what is not in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from scripts.json_documents import DOCUMENTS
from scripts.json_schemas import PAGE, SCHEMA, schema, schema_text, table
from tests.documents import check, documents, format_of

CLI = Path(__file__).parents[1] / "rayllm_ctl" / "cli"
PRINTING = ("print_document", "print_list", "print_line")
CHECK = {"category": "cluster", "name": "KubeRay", "ok": True, "detail": "", "hints": []}
DOCUMENT = {"apiVersion": "cli.rayllm.io/v1", "kind": "CheckResult", "ok": True, "checks": [CHECK]}


def printed_kinds() -> Iterator[str]:
    """The kinds that commands print."""
    for file in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PRINTING:
                yield ast.literal_eval(node.args[0])


def test_every_kind_that_is_printed_has_a_schema() -> None:
    assert set(printed_kinds()) == DOCUMENTS.keys()


def test_the_published_schema_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "python -m scripts.json_schemas"
    assert table() in PAGE.read_text(encoding="utf-8"), "python -m scripts.json_schemas"


def test_the_schema_is_valid_and_closed() -> None:
    found = schema()
    assert jsonschema_rs.meta.is_valid(found)
    objects = [one for one in found["$defs"].values() if one["type"] == "object"]
    assert [one for one in objects if one["additionalProperties"] is not False] == []


def test_a_document_is_valid() -> None:
    check(DOCUMENT)


@pytest.mark.parametrize(
    "wrong",
    [
        {**DOCUMENT, "more": 1},
        {name: value for name, value in DOCUMENT.items() if name != "ok"},
        {**DOCUMENT, "checks": [{**CHECK, "ok": "yes"}]},
        {**DOCUMENT, "kind": "Unheard"},
        {"ok": True, "checks": []},
        [CHECK],
    ],
)
def test_what_is_not_in_the_schema_is_found(wrong: Any) -> None:
    with pytest.raises(AssertionError):
        check(wrong)


def test_output_is_found_by_the_flags() -> None:
    assert [format_of(line.split()) for line in ("plan -o json", "plan --output=yaml", "plan -o wide", "plan")] == [
        "json", "yaml", None, None,
    ]  # fmt: skip
    assert documents('{"a": 1}\n{"a": 2}\n', "json") == [{"a": 1}, {"a": 2}]
    assert documents("---\na: 1\n---\na: 2\n", "yaml") == [{"a": 1}, {"a": 2}]

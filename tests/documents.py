"""Holds what commands print with -o json and -o yaml against docs/json-output.schema.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.cli.documents import DOCUMENT_VERSION, MACHINE_FORMATS

SCHEMA = Path(__file__).parents[1] / "docs" / "json-output.schema.json"

Command = Callable[..., int]


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


@cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    name = f"{kind}Document"
    assert name in _schema()["$defs"], f"no schema of kind {kind}: scripts/json_documents.py"
    return jsonschema_rs.validator_for(
        {"$schema": _schema()["$schema"], "$defs": _schema()["$defs"], "$ref": f"#/$defs/{name}"}
    )


def format_of(arguments: Sequence[str]) -> str | None:
    """The machine format that a command line asks for."""
    for argument, value in pairwise([*arguments, ""]):
        name, _, joined = argument.partition("=")
        found = joined if argument.startswith(("-o=", "--output=")) else value
        if name in ("-o", "--output") and found in MACHINE_FORMATS:
            return found
    return None


def documents(text: str, form: str) -> list[Any]:
    """The documents in the output of a command."""
    if form == "yaml":
        return list(yaml.safe_load_all(text))
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def check(document: Any) -> None:
    """Fail unless a document is one of Kubernetes, or valid by the schema of its kind."""
    assert isinstance(document, dict), f"a document is not an object: {document!r}"
    if document.get("apiVersion") == DOCUMENT_VERSION:
        found = [f"{'.'.join(map(str, one.instance_path))}: {one.message}" for one in
                 _validator(document["kind"]).iter_errors(document)]  # fmt: skip
        assert found == [], f"{document['kind']} is not as {SCHEMA.name} says: {found}"
        return
    for item in document["items"] if document.get("kind") == "List" else [document]:
        assert {"apiVersion", "kind", "metadata"} <= item.keys(), f"neither a document nor a manifest: {document!r}"


def checked(run: Command) -> Command:
    """`run`, which checks every document on standard output."""

    def command(arguments: Sequence[str], *more: Any) -> int:
        form = format_of(arguments)
        if form is None:
            return run(arguments, *more)
        stream, written = sys.stdout, list[str]()
        write = stream.write

        def record(text: str) -> int:
            count = write(text)
            written.append(text)  # Click asks whether the stream takes bytes by writing none
            return count

        stream.write = record  # type: ignore[method-assign]
        try:
            code = run(arguments, *more)
        finally:
            del stream.write
        text = "".join(written)
        for document in documents(text, form) if text else ():
            check(document)
        return code

    return command


def install() -> None:
    """Check the output of all commands that run in this process."""
    app.run = checked(app.run)

"""Write docs/json-output.schema.json, the JSON schema of what commands print, and its table in docs/reference/json.md.

Run it as `python -m scripts.json_schemas`; with --check it only compares.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import sys
import types
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from rayllm_ctl.cli.documents import DOCUMENT_VERSION
from rayllm_ctl.model.text.json_form import field_keys, key_of
from scripts.json_documents import DOCUMENTS, Merged

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA, PAGE = DOCS / "json-output.schema.json", DOCS / "reference" / "json.md"

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}
_HEAD = ("apiVersion", "kind")
_TABLE = re.compile(r"(?<=<!-- kinds -->\n).*?(?=<!-- end -->)", re.S)


class Schemas:
    """The definitions of all types that documents consist of, by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._types: dict[str, Any] = {}

    def named(self, name: str, kind: Any, make: Any) -> dict[str, Any]:
        """A reference to the definition `name`, which is made when it is first asked for."""
        if self._types.setdefault(name, kind) != kind:
            raise ValueError(f"two types are named {name}")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{name}"}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type."""
        if dataclasses.is_dataclass(kind) or is_typeddict(kind):
            return self.named(kind.__name__, kind, lambda: {**_described(kind), **self.object((kind,))})
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            merged = next((one for one in arguments[1:] if isinstance(one, Merged)), None)
            if merged is not None:
                return self.named(merged.name, merged, lambda: self.object(merged.parts))
            return {**self.of(arguments[0]), "description": str(arguments[1])}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple and arguments[-1] is not Ellipsis:
            items = [self.of(one) for one in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is not None and issubclass(origin, Mapping):
            value = self.of(arguments[1])
            return {"type": "object", **({"additionalProperties": value} if value else {})}
        return _plain(kind)

    def object(self, parts: tuple[Any, ...], head: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An object with the fields of `head` and of several types."""
        properties, required = dict(head or {}), list(head or ())
        for part in parts:
            for key, kind, needed in _fields(part):
                properties[key] = self.of(kind)
                required += [key] if needed else []
        return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _plain(kind: Any) -> dict[str, Any]:
    if kind is Any or kind is object:
        return {}
    if kind is datetime:
        return {"type": "string", "format": "date-time", "pattern": "Z$"}
    if kind is type(None):
        return {"type": "null"}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    return {"type": _SCALARS[kind]}


def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """Key, type and whether it is always there, of each field of a dataclass or TypedDict."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
        return [
            (name, get_args(hint)[0] if name in optional else hint, name not in optional)
            for name, hint in hints.items()
        ]
    found = []
    for field in dataclasses.fields(kind):
        hint, needed = hints[field.name], not field.metadata.get("omit-none")
        if not needed:
            hint = _without_none(hint)
        found += [(key, hint, needed) for key in field_keys(field)]
    return found


def _without_none(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return Annotated[_without_none(get_args(hint)[0]), get_args(hint)[1]]
    return Union[tuple(one for one in get_args(hint) if one is not type(None))]  # noqa: UP007


def _described(kind: Any) -> dict[str, str]:
    """The docstring in terms of JSON."""
    text = " ".join((kind.__doc__ or "").split())
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            text = re.sub(rf"\b{field.name}\b(?=[:,`])", key_of(field), text)
    for python, form in (("None", "null"), ("False", "false"), ("True", "true")):
        text = re.sub(rf"\b{python}\b", form, text)
    return {"description": text} if text else {}


def schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of all documents; that of a kind is #/$defs/ and its name, followed by Document."""
    schemas = Schemas()
    references = []
    for name, document in DOCUMENTS.items():
        head: dict[str, Any] = {"apiVersion": {"const": DOCUMENT_VERSION}, "kind": {"const": name}}
        if document.items:
            (only,) = document.items
            head["items"] = {"type": "array", "items": schemas.of(only)}
        made = schemas.object(document.parts, head)
        made["description"] = f"Printed by {document.commands}."
        references.append(schemas.named(f"{name}Document", name, lambda made=made: made))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Output of rayllm-ctl with -o json",
        "oneOf": references,
        "$defs": dict(sorted(schemas.definitions.items())),
    }


def schema_text() -> str:
    """The schema as the file in docs/ contains it."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def table() -> str:
    """The kinds with their commands and fields, for the page."""
    rows = ["| kind | printed by | fields |", "|---|---|---|"]
    definitions = schema()["$defs"]
    for name, document in DOCUMENTS.items():
        made = definitions[f"{name}Document"]
        optional = set(made["properties"]) - set(made["required"])
        keys = [f"`{key}`{'?' if key in optional else ''}" for key in made["properties"] if key not in _HEAD]
        rows.append(f"| `{name}` | {document.commands} | {', '.join(keys)} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """0 when the files are (now) current, 1 when --check finds that they are not."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = {SCHEMA: schema_text(), PAGE: _TABLE.sub(lambda _: table(), page)}
    for path, text in wanted.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} is not what the code says\n\nhint: make docs\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

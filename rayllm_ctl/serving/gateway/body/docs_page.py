"""The page at /docs: the OpenAPI document for people, without scripts from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = "body{font:16px sans-serif;margin:2em;max-width:60em}td{padding:.2em 1em .2em 0;vertical-align:top}"


def page(document: dict[str, Any]) -> bytes:
    """HTML with a section for each operation and a row for each field of its body."""
    title = escape(document["info"]["title"])
    parts = [f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"]
    parts.append(f"<p>{escape(document['info']['description'])} <a href=openapi.json>openapi.json</a></p>")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}</p>")
            for content in operation.get("requestBody", {}).get("content", {}).values():
                parts.append(_fields(content["schema"]))
    return "\n".join(parts).encode()


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = (
        f"<tr><td><code>{escape(name)}</code><td>{'required' if name in required else ''}<td>{escape(_kind(field))}"
        for name, field in schema["properties"].items()
    )
    return f"<table>{''.join(rows)}</table>"


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each != {"type": "null"}]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"array of {_kind(schema['items'])}"
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    ends = [f"{sign} {schema[name]}" for name, sign in bounds.items() if name in schema and abs(schema[name]) < 2**62]
    return " ".join([schema["type"], ", ".join(ends)]).strip()

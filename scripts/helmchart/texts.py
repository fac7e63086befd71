"""values.yaml and README.md of the chart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from e2e.versions import KUBERAY
from rayllm_ctl.model.text.yaml_text import dump, flow
from scripts.helmchart.form import Value, elements, spelled, values

README = Path(__file__).parent / "README.md"
EDITABLE = ("serve.autoscaling", "head.env", "workerGroups", "labels", "exposure")
HEADER = """\
The plan of a service, as `rayllm-ctl render --format helm-values` writes it. These defaults are a small model on CPUs;
they lack an image.
"""


def values_yaml() -> str:
    """The default values, each below its description."""
    return "\n".join([*_comment(HEADER, ""), "", *_lines(values(), "")]) + "\n"


def _lines(section: Iterator[Value], pad: str) -> Iterator[str]:
    for value in section:
        yield from _comment(about(value), pad)
        key = value.path.rpartition(".")[2]
        if value.section is not None and value.default is not None:
            yield f"{pad}{key}:"
            yield from _lines(elements(value), f"{pad}  ")
        else:
            yield from (f"{pad}{line}" for line in dump({key: value.default}, sort=False).splitlines())
        if not pad:
            yield ""


def _comment(text: str, pad: str) -> Iterator[str]:
    return (f"{pad}# {line}" for line in textwrap.wrap(text, 110 - len(pad)))


def readme() -> str:
    """README.md: the text beside this module, with a table of the values."""
    text = README.read_text(encoding="utf-8")
    editable = ", ".join(f"`{path}`" for path in EDITABLE)
    return (
        text.replace("KUBERAY", KUBERAY).replace("EDITABLE", editable).replace("VALUES", "\n".join(_tables(values())))
    )


def _tables(section: Iterator[Value], depth: int = 3) -> Iterator[str]:
    held = list(section)
    simple = [value for value in held if not _nested(value)]
    if simple:
        yield from ("| value | type | default | meaning |", "|---|---|---|---|")
        yield from (f"| `{v.path}` | {_type(v.field.kind)} | {_default(v)} | {v.field.description} |" for v in simple)
        yield ""
    for value in held:
        if _nested(value):
            yield from (f"{'#' * depth} {value.path}", "", about(value), "")
            if value.section is None or value.default is None:
                yield from (f"{_type(value.field.kind).capitalize()}, by default {_default(value)}.", "")
            yield from _tables(elements(value), min(depth + 1, 6))


def _nested(value: Value) -> bool:
    return any(True for _ in elements(value))


def about(value: Value) -> str:
    """What is said of a value: its description, and that of its section."""
    section = value.element
    said = spelled(section.__doc__ or "", section) if section else ""
    return " ".join(filter(None, (value.field.description, said)))


def _default(value: Value) -> str:
    return "" if "[]" in value.path else f"`{flow(value.default)}`"


def _type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{word}`" for word in get_args(kind))
    if get_origin(kind) is tuple:
        return "list"
    return {str: "text", int: "integer", float: "number", bool: "true or false"}.get(kind, "mapping")

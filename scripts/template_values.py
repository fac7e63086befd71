"""Write the table of values in docs/how-to/templates.md from the code; with --check only say whether it is current."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rayllm_ctl.render.values import Values

TARGET = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "templates.md"
_TABLE = re.compile(r"(?<=<!-- values: made by `make docs` -->\n).*?(?=<!-- /values -->)", re.S)


def table() -> str:
    """A row for each value: its name, what it is, and the names of its fields."""
    rows = ["| name | contents | fields |", "|---|---|---|"]
    listed: dict[Any, str] = {}
    for name, kind in get_type_hints(Values, include_extras=True).items():
        section = section_of(kind)
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(section)) if section else ""
        if section in listed:
            fields = f"as `{listed[section]}`"
        elif fields.count(","):
            listed[section] = name
        rows.append(f"| `{name}` | {_about(kind, section)} | {fields} |")
    return "\n".join(rows) + "\n"


def section_of(kind: Any) -> Any:
    """The dataclass that a value is, or that its elements are; None for a plain value."""
    return next((found for found in _parts(kind) if dataclasses.is_dataclass(found)), None)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind)[: 1 if get_origin(kind) is Annotated else None]:
        yield from _parts(part)


def _about(kind: Any, section: Any) -> str:
    """The annotation of a value, or the first sentence of its section."""
    if get_origin(kind) is Annotated:
        text = str(get_args(kind)[1])
    else:
        assert section is not None  # A plain value without a description would say nothing.
        text = re.split(r"(?<=\.)\s", inspect.cleandoc(section.__doc__ or ""))[0]
    text = text.replace("null", "`none`").replace("|", "\\|").strip().removesuffix(".")
    return f"a list: {text[0].lower()}{text[1:]}" if str(kind).startswith("tuple[") else text


def main() -> int:
    """0 when the file is (now) current, 1 when --check finds that it is not."""
    before = TARGET.read_text(encoding="utf-8")
    text = _TABLE.sub(lambda _: table(), before)
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif text != before:
        sys.stderr.write(f"{TARGET.name} is not what the code says\n\nhint: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

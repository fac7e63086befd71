"""A diff as text: the changes with their effects, then the unified diff; also as Markdown and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.changes import Diff, Effect, FieldChange, ObjectDiff
from rayllm_ctl.model.observed.unified_diff import unified
from rayllm_ctl.model.text.json_form import to_json

_SIDES = {"+": "ok", "-": "error"}
_MARKS = {"created": "+", "configured": "~", "deleted": "-"}
_COLORS: dict[Effect, str] = {
    "new-cluster": "error",
    "with-new-cluster": "dim", "recreate": "error", "deleted": "error", "restart": "warning",
    "not-rolled-out": "warning", "bounds": "warning", "in-place": "ok", "created": "ok",
    "rejected": "error", "unknown": "warning",
}  # fmt: skip
_LONG = 60
_WIDE = 44
_EFFECT_WIDTH = 18


def format_meaning(diff: Diff, style: Printer) -> Iterator[str]:
    """The changed objects: a line per field, then the consequence of each effect."""
    for item in diff.objects:
        yield f"{_MARKS[item.action]} {_title(item)}"
        width = max((len(_field(change)) for change in item.explanation.changes), default=0)
        for change in item.explanation.changes:
            effect = style.paint(f"{change.effect:<{_EFFECT_WIDTH}}", _COLORS[change.effect])
            yield f"    {effect}{_field(change):<{min(width, _WIDE)}}  {_values(change)}"
        for one in item.explanation.consequences:
            label = style.paint(f"{one.effect:<{_EFFECT_WIDTH}}", _COLORS[one.effect])
            yield f"  {label}  {one.message}"
            yield from (f"  {'hint:':>{_EFFECT_WIDTH + 1}} {hint}" for hint in one.hints)


def format_unified(diff: Diff, style: Printer) -> str:
    """The unified diffs of all objects, as `kubectl diff` prints them."""
    lines = "".join(unified(diff, item) for item in diff.objects).splitlines()
    return "".join(f"{style.paint(line, _SIDES[line[0]]) if line[:1] in _SIDES else line}\n" for line in lines)


def format_markdown(diff: Diff) -> str:
    """A table of the changes, their consequences, and the collapsed unified diffs, for a pull request comment."""
    if not diff:
        return "No differences.\n"
    lines = ["| object | field | change | effect |", "|---|---|---|---|"]
    for item in diff.objects:
        title = _cell(_title(item))
        lines += [
            f"| {title} | {_code(_field(change))} | {_values(change, _code)} | {change.effect} |"
            for change in item.explanation.changes
        ] or [f"| {title} | | | {item.action} |"]
    lines.append("")
    for item in diff.objects:
        for one in item.explanation.consequences:
            lines.append(f"- **{one.effect}** {_cell(_title(item))}: {_cell(one.message)}")
            lines += [f"  - hint: {_code(str(hint))}" for hint in one.hints]
    for item in diff.objects:
        text = unified(diff, item)
        if text:
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
            lines += ["", f"<details><summary>{_html(_title(item))}</summary>", "", f"{fence}diff", text.rstrip("\n"),
                      fence, "", "</details>"]  # fmt: skip
    return "\n".join(lines) + "\n"


def diff_document(diff: Diff) -> dict[str, Any]:
    """The diff as plain JSON data."""
    return {
        "differences": bool(diff),
        "notes": list(diff.notes),
        "outage": any(item.outage for item in diff.objects),
        "effects": list(dict.fromkeys(effect for item in diff.objects for effect in item.effects)),
        "objects": [
            {
                "apiVersion": item.api_version, "kind": item.kind, "name": item.name, "namespace": item.namespace,
                "action": item.action, "outage": item.outage, **to_json(item.explanation), "diff": unified(diff, item),
            }
            for item in diff.objects
        ],
    }  # fmt: skip


def format_value(value: Any) -> str:
    """A value in a line: text as it is unless that is ambiguous, anything else as short JSON."""
    if value is None:
        return "(none)"
    if isinstance(value, str) and value and value == value.strip() and value.isprintable():
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _title(item: ObjectDiff) -> str:
    return f"{item.kind} {f'{item.namespace}/' if item.namespace else ''}{item.name}"


def _field(change: FieldChange) -> str:
    return f"{change.field} ({', '.join(change.where)})" if change.where else change.field


def _values(change: FieldChange, format_side: Callable[[str], str] = str) -> str:
    """Old and new value; for an added or removed part of the object, only that."""
    for side, other, word in ((change.old, change.new, "removed"), (change.new, change.old, "added")):
        if other is None and isinstance(side, (dict, list)):
            return word
    old, new = (format_side(format_value(side)) for side in (change.old, change.new))
    return f"{old} → {new}"


def _cell(text: str) -> str:
    """Text that neither ends a cell of a table nor is taken for markup."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text.replace("\n", " "))


def _code(text: str) -> str:
    """Text as code, in a cell of a table too."""
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""The results of `check`, by category, as they arrive."""

from __future__ import annotations

from collections.abc import Iterable

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.checks import Check


def show_checks(checks: Iterable[Check], style: Printer) -> list[Check]:
    """Print each check as it arrives, and at the end how many failed. Returns all checks."""
    found: list[Check] = []
    for check in checks:
        if not found or found[-1].category != check.category:
            style.line(("\n" if found else "") + check.category)
        found.append(check)
        mark = style.symbol("warning" if check.ok is None else "ok" if check.ok else "error")
        style.line(f"  {mark} {check.name}" + (f": {check.detail}" if check.detail else ""))
        for hint in check.hints:
            style.line(f"      {hint}")
    failed, warned = sum(check.ok is False for check in found), sum(check.ok is None for check in found)
    parts = [_count(failed, "check", "failed") if failed else "no check failed"]
    if warned:
        parts.append(_count(warned, "warning", ""))
    style.line("\n" + ", ".join(parts))
    return found


def _count(number: int, what: str, done: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'} {done}".rstrip()

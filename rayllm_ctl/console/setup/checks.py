"""The results of `check`, by category, as they arrive."""

from __future__ import annotations

from collections.abc import Iterable

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.checks import Check


def show_checks(checks: Iterable[Check], style: Printer, *, short: bool = False) -> list[Check]:
    """Print each check as it arrives, and at the end how many failed. Returns all checks.

    short: only those that failed, and warnings.
    """
    found: list[Check] = []
    category = None
    for check in checks:
        found.append(check)
        if short and check.ok:
            continue
        if category != check.category:
            style.line(("\n" if category is not None else "") + check.category)
            category = check.category
        mark = style.symbol("warning" if check.ok is None else "ok" if check.ok else "error")
        style.line(f"  {mark} {check.name}" + (f": {check.detail}" if check.detail else ""))
        for hint in check.hints:
            style.line(f"      {hint}")
    failed, warned = sum(check.ok is False for check in found), sum(check.ok is None for check in found)
    parts = [_count(failed, "check", "failed") if failed else "no check failed"]
    if warned:
        parts.append(_count(warned, "warning", ""))
    style.line(("\n" if category is not None else "") + ", ".join(parts))
    return found


def _count(number: int, what: str, done: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'} {done}".rstrip()

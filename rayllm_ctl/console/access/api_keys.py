"""API keys as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rayllm_ctl.model.spec.api_keys import ApiKey, timestamp


def key_table(keys: Sequence[ApiKey], now: datetime) -> str:
    """Keys as a table that ends in a newline; or a line if there are none."""
    if not keys:
        return "no keys\n"
    table = [("NAME", "CREATED", "EXPIRES", "MODELS", "LIMITS"), *(_cells(key, now) for key in keys)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)
    return "\n".join(lines) + "\n"


def _cells(key: ApiKey, now: datetime) -> tuple[str, ...]:
    if key.problem:
        return key.name, "-", "-", "-", key.problem
    expired = key.expires is not None and key.expires <= now
    expires = "never" if key.expires is None else timestamp(key.expires) + (" (expired)" if expired else "")
    limits = [f"{rate} {what}" for rate, what in ((key.requests, "requests"), (key.tokens, "tokens")) if rate]
    return (
        key.name,
        timestamp(key.created) if key.created else "-",
        expires,
        "all" if key.models is None else ", ".join(key.models),
        ", ".join(limits) or "as the gateway's",
    )

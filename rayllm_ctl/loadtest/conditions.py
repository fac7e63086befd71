"""What a load consisted of and when, for its result: without it two results cannot be compared."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rayllm_ctl.loadtest.settings import Length, Prompts, Settings


def conditions(settings: Settings, begun: datetime) -> dict[str, Any]:
    """The time, the prompts and the form of the requests. Rows of a file are known by their number and digest."""
    return {
        "startedAt": begun.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "prompts": _prompts(settings.prompts),
        "request": {"api": settings.target.api, "stream": settings.stream, "fields": dict(settings.body)},
    }


def _prompts(prompts: Prompts) -> dict[str, Any]:
    output = None if prompts.output is None else _length(prompts.output)
    if not prompts.rows:
        made = {"input": _length(prompts.input), "prefix": prompts.prefix, "prefixes": prompts.prefixes}
        return {**made, "output": output, "seed": prompts.seed}
    rows = json.dumps([dict(row) for row in prompts.rows], sort_keys=True).encode()
    return {"rows": len(prompts.rows), "sha256": hashlib.sha256(rows).hexdigest(), "output": output}


def _length(length: Length) -> dict[str, Any]:
    found = {name: value for name, value in asdict(length).items() if name != "sigma" or length.kind == "lognormal"}
    if length.kind == "fixed":
        del found["high"]
    return found

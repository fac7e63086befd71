"""Answers that wait until a test releases them, so that "every replica is busy" is a state that lasts.

A prompt that contains `HOLD <name>` waits before its first token, one that contains `HOLD <name> AFTER <n>` before
token n + 1. It waits until the file `released/<name>` exists in FOLDER of its pod. Meanwhile there is a file
`held/<name>.<pid>.<number>`: a test sees which answers a pod holds, and that an answer was aborted. The file of a
process that was killed stays, hence the process id.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/tmp/rayllm-standin")

_WANTED = re.compile(r"\bHOLD ([a-z0-9-]+)(?: AFTER (\d+))?")
_POLL_SECONDS = 0.05
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Hold:
    """What releases an answer, and after how many tokens it waits for that."""

    name: str
    after: int


def wanted(prompt: str) -> Hold | None:
    """The hold that a prompt asks for."""
    found = _WANTED.search(prompt)
    return Hold(found[1], int(found[2] or 0)) if found else None


async def wait(hold: Hold, folder: Path = FOLDER) -> None:
    """Wait until the hold is released."""
    released = folder / "released" / hold.name
    held = folder / "held" / f"{hold.name}.{os.getpid()}.{next(_NUMBERS)}"
    held.parent.mkdir(parents=True, exist_ok=True)
    held.touch()
    try:
        while not released.exists():
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        held.unlink()

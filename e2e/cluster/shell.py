"""Run a program to its end; what it says becomes the error when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import RigError

_LINES_SHOWN = 12
_running: set[subprocess.Popen[str]] = set()


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str = "",
) -> str:
    """Run `argv` and return its standard output; RigError with the end of what it said if it fails or is missing."""
    words = [str(word) for word in argv]
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, text=True)
    except FileNotFoundError:
        raise RigError(f"{words[0]} is not installed", hint) from None
    _running.add(child)
    try:
        output, errors = child.communicate(stdin)
    finally:
        _running.discard(child)
    if child.returncode != 0:
        said = last_lines(errors.strip() or output.strip())
        raise RigError(f"`{' '.join(words[:6])}` failed with {child.returncode}:\n{said}", hint)
    return output


def end_running() -> None:
    """End all programs that threads of this process wait for in `run`, which then raises in these threads."""
    for child in list(_running):
        child.terminate()


def last_lines(text: str) -> str:
    """The end of `text`, short enough for an error message."""
    return "\n".join(text.splitlines()[-_LINES_SHOWN:])

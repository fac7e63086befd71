"""Run a program to its end; what it says becomes the error when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import RigError

_LINES_SHOWN = 12


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
    try:
        done = subprocess.run(words, input=stdin, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RigError(f"{words[0]} is not installed", hint) from None
    if done.returncode != 0:
        said = last_lines(done.stderr.strip() or done.stdout.strip())
        raise RigError(f"`{' '.join(words[:6])}` failed with {done.returncode}:\n{said}", hint)
    return done.stdout


def last_lines(text: str) -> str:
    """The end of `text`, short enough for an error message."""
    return "\n".join(text.splitlines()[-_LINES_SHOWN:])

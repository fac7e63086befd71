"""Run a program to its end; what it says becomes the error when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster import interrupt
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
    """Run `argv` and return its standard output; RigError with the end of what it said if it fails or is missing.

    KeyboardInterrupt if an interrupt is noted before it or meanwhile.
    """
    interrupt.check()
    words = [str(word) for word in argv]
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, text=True)
    except FileNotFoundError:
        raise RigError(f"{words[0]} is not installed", hint) from None
    output, errors = communicate(child, stdin)
    if child.returncode != 0:
        said = last_lines(errors.strip() or output.strip())
        raise RigError(f"`{' '.join(words[:6])}` failed with {child.returncode}:\n{said}", hint)
    return output


def communicate(child: subprocess.Popen[str], stdin: str | None = None) -> tuple[str, str]:
    """Give `child` its input and wait for its end; its output and errors, empty where it has no pipe for them.

    KeyboardInterrupt, with `child` ended, if an interrupt is noted meanwhile.
    """
    _running.add(child)
    if interrupt.pending():
        # The signal came before `child` was among those that it ends.
        child.terminate()
    try:
        output, errors = child.communicate(stdin)
    finally:
        _running.discard(child)
    interrupt.check()
    return output or "", errors or ""


def end_running() -> None:
    """End all programs that threads of this process wait for in `communicate`. For the handler of `interrupt.noted`."""
    for child in list(_running):
        child.terminate()


def last_lines(text: str) -> str:
    """The end of `text`, short enough for an error message."""
    return "\n".join(text.splitlines()[-_LINES_SHOWN:])

"""Report of a command that is interrupted while the cluster continues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rayllm_ctl.errors import INTERRUPTED, UserError


@contextmanager
def interruptible(message: str, *hints: str) -> Iterator[None]:
    """On Ctrl-C, exit with `message`, which describes what continues in the cluster, and a hint."""
    try:
        yield
    except KeyboardInterrupt:
        raise UserError(f"interrupted: {message}", hint=hints, exit_code=INTERRUPTED) from None

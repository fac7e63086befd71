"""What a command reports when it is interrupted while the cluster continues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rayllm_ctl.errors import INTERRUPTED, UserError


@contextmanager
def interruptible(message: str, *hints: str) -> Iterator[None]:
    """On Ctrl-C, end with `message`, which says what the cluster continues with, and what to type next."""
    try:
        yield
    except KeyboardInterrupt:
        raise UserError(f"interrupted: {message}", hint=hints, exit_code=INTERRUPTED) from None

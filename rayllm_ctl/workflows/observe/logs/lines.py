"""Lines of logs, and what is said beside them."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class LogLine:
    """A line of the log `source`, without its end; source is empty if there is only one."""

    source: str
    text: str


@dataclass(frozen=True)
class LogNote:
    """A remark: why a log cannot be read, or that one begins or ends."""

    message: str


def whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines as soon as they are there; at the end what is left."""
    buffer = b""
    for piece in pieces:
        *whole, buffer = (buffer + piece).split(b"\n")
        yield from whole
    if buffer:
        yield buffer

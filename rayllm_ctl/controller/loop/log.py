"""Lines of the controller's log on standard error: text, or one JSON object per line.

Messages are made of names of objects and of errors for users, which quote no secrets.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import PurePath
from traceback import extract_tb
from typing import TYPE_CHECKING, Literal, TextIO

from rayllm_ctl.errors import UserError

if TYPE_CHECKING:
    from rayllm_ctl.controller.types import Key

LogFormat = Literal["text", "json"]

LOG = logging.getLogger("rayllm_ctl.controller")

_FRAMES = 3
"""Places of an unexpected exception that are logged, the innermost ones."""


def log_to(stream: TextIO, form: LogFormat) -> None:
    """Write the log to `stream`; of libraries their warnings."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines(form))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOG.setLevel(logging.INFO)
    # It warns of each connection beyond those that it keeps: a burst of requests, and nothing that anybody can act on.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


def about(key: Key) -> dict[str, str]:
    """`extra` of a line that is about an object."""
    return {"key": str(key)}


def error_text(error: Exception) -> str:
    """What is logged of an exception: the text of one that is not made for users may quote values of an object."""
    if isinstance(error, UserError):
        return "; hint: ".join((error.message, *error.hints))
    frames = extract_tb(error.__traceback__)[-_FRAMES:]
    places = ", ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    return f"internal error: {type(error).__name__}{f' in {places}' if places else ''}"


class _Lines(logging.Formatter):
    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        key: str | None = getattr(record, "key", None)
        message = record.getMessage()
        if self._form == "json":
            parts = {"time": at, "level": record.levelname.lower(), **({"key": key} if key else {}), "message": message}
            return json.dumps(parts, ensure_ascii=False)
        # One line each, also for messages of several lines.
        shown = " ".join(line.strip() for line in message.splitlines() if line.strip())
        return f"{at} {record.levelname.lower():7} {f'{key}: ' if key else ''}{shown}"

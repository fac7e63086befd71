"""Server-sent events, as the HTML standard defines them, out of bytes that arrive in any pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Reads the data of events. A character, a line or an event may be split between pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The data of each event that ends in this piece."""
        text = self._rest + piece
        # Half of a CR LF, perhaps.
        held = text.endswith(b"\r")
        lines = _LINE_END.split(text[:-1] if held else text) if b"\r" in text else text.split(b"\n")
        self._rest = lines.pop() + (b"\r" if held else b"")
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                data, self._data = b"\n".join(self._data), []
                yield data

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))

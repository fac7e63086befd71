"""Checks of a file's content while it passes: checksums of the source, and the header of safetensors files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.serving.storage.marker import How, MarkedFile
from rayllm_ctl.serving.storage.sources.remote import Remote

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""The limit of the format (safetensors/src/tensor.rs 0.6, MAX_HEADER_SIZE)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the content is, and what is wrong with it; `wrong` is None if it is that of the source."""

    entry: MarkedFile
    wrong: str | None


class Checker:
    """Takes the whole content of a file in order."""

    def __init__(self, file: Remote) -> None:
        self._file = file
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False) if file.md5 else None
        self._git: Any = None
        if file.git_sha1:
            self._git = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
        self._header = _Header() if file.name.endswith(".safetensors") else None

    def update(self, chunk: bytes | bytearray | memoryview) -> None:
        """Take the next bytes."""
        self._size += len(chunk)
        self._sha256.update(chunk)
        if self._md5:
            self._md5.update(chunk)
        if self._git:
            self._git.update(chunk)
        if self._header:
            self._header.update(chunk)

    def verdict(self) -> Verdict:
        """Compare what was taken with what the source tells of the file."""
        file, sha256 = self._file, self._sha256.hexdigest()
        compared: list[tuple[How, str | None, str | None]] = [
            ("sha256", file.sha256, sha256),
            ("git-sha1", file.git_sha1, self._git.hexdigest() if self._git else None),
            ("md5", file.md5, self._md5.hexdigest() if self._md5 else None),
        ]
        known: list[How] = [how for how, expected, _ in compared if expected]
        entry = MarkedFile(self._size, sha256, known[0] if known else "size")
        if self._size != file.size:
            return Verdict(entry, f"it has {self._size} of {file.size} bytes")
        for how, expected, found in compared:
            if expected and expected != found:
                return Verdict(entry, f"its {how} is {found}, not {expected}")
        return Verdict(entry, self._header.wrong(file.size) if self._header else None)


class _Header:
    """The beginning of a safetensors file: eight bytes with the length of a JSON header, and the header."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._wanted = _LENGTH_BYTES

    def update(self, chunk: bytes | bytearray | memoryview) -> None:
        taken = 0
        while (need := self._wanted - len(self._bytes)) > 0 and taken < len(chunk):
            part = memoryview(chunk)[taken : taken + need]
            self._bytes += part
            taken += len(part)
            if len(self._bytes) == self._wanted == _LENGTH_BYTES:
                length = int.from_bytes(self._bytes, "little")
                if 0 < length <= _MAX_HEADER_BYTES:
                    self._wanted += length

    def wrong(self, size: int) -> str | None:
        if len(self._bytes) < self._wanted or self._wanted == _LENGTH_BYTES:
            return "it is not a safetensors file"
        try:
            tensors = json.loads(self._bytes[_LENGTH_BYTES:])
            ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
            expected = self._wanted + max(ends, default=0)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "the header of the safetensors file is not valid"
        return None if expected == size else f"its safetensors header describes {expected} bytes, and it has {size}"

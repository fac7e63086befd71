"""Files that are on the disk when they say so."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

_SYNC_BYTES = 64 << 20
"""How much may wait to be written. More fills the memory of a small container, and its writes come to a halt."""


class FileOutput:
    """A file that is continued at a byte; what was after it is cut off."""

    def __init__(self, path: Path, start: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.ftruncate(self._file, start)
        os.lseek(self._file, start, os.SEEK_SET)
        self._end = self._synced = start

    def __enter__(self) -> FileOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._sync()
        finally:
            os.close(self._file)

    def write(self, chunk: bytes | bytearray) -> None:
        """Append bytes."""
        left = memoryview(chunk)
        while left:
            left = left[os.write(self._file, left) :]
        self._end += len(chunk)
        if self._end - self._synced >= _SYNC_BYTES:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file)
        os.posix_fadvise(self._file, self._synced, self._end - self._synced, os.POSIX_FADV_DONTNEED)
        self._synced = self._end


def write_file(path: Path, content: bytes) -> None:
    """Put a whole file in place at once, for good."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder last."""
    if not path.is_dir():
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

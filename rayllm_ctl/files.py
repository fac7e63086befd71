"""What users name: files are replaced as a whole, and nothing but files; pipes are read once, and standard input may be
closed."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO, TextIO

from rayllm_ctl.errors import UsageError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def file_to_replace(path: Path, hint: str) -> Path:
    """The file to which `path` leads through symbolic links; it need not exist.

    UsageError for anything else, which a replacement would remove: a device, a named pipe, a socket, a directory.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=f"ls -l {path}") from None
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise UsageError(f"{path}: is {kind}, not a file that can be written", hint=hint)
    return target


def replace_file(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace a file at once, so that readers see the old text or the new. It keeps its permissions.

    path: from `file_to_replace`. mode: the permissions of a new file. Raises OSError.
    """
    temporary = path.with_name(f".{os.urandom(8).hex()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def standard_input(hint: str) -> TextIO:
    """Standard input. UsageError if it is closed (`<&-`)."""
    stream: TextIO | None = sys.stdin
    if stream is None:
        raise UsageError("standard input is closed", hint=hint)
    return stream


STANDARD_INPUT = "-"


class _Stream:
    """What can be read only once, and is kept for whoever reads it again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._data, self._ended = file, b"", False

    def read(self, most: int) -> bytes:
        """The first `most` bytes; all for -1."""
        left = max(most - len(self._data), 0) if most >= 0 else -1
        if left and not self._ended:
            piece = self._file.read(left)
            self._data += piece
            self._ended = left < 0 or len(piece) < left
        return self._data if most < 0 else self._data[:most]


_streams: dict[object, _Stream] = {}


def read_input(path: Path, hint: str, most: int = -1) -> bytes:
    """The first `most` bytes (-1: all) of a file, of a pipe (`-f <(...)`), or, for "-", of standard input.

    Each call returns the same, also of what can be read only once. hint: for a standard input that is closed.
    Raises OSError and UsageError.
    """
    if str(path) == STANDARD_INPUT:
        stream = standard_input(hint)
        return _streams.setdefault(_identity(stream), _Stream(stream.buffer)).read(most)
    status = path.stat()
    if stat.S_ISREG(status.st_mode):
        with path.open("rb") as file:
            return file.read(most)
    key = (status.st_dev, status.st_ino)
    if key not in _streams:
        _streams[key] = _Stream(path.open("rb"))
    return _streams[key].read(most)


def _identity(stream: TextIO) -> object:
    """What a pipe has in common with its other names, such as /dev/stdin; the stream itself if it is none."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return stream
    return stream if stat.S_ISREG(status.st_mode) else (status.st_dev, status.st_ino)


def is_stream(path: Path) -> bool:
    """Whether a file is standard input or a pipe, whose path says nothing of its content."""
    return str(path) == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def input_name(path: Path) -> str:
    """What messages call a file to read."""
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def folder_of_input(path: Path) -> Path:
    """The folder from which paths in a file are seen: the working directory for a pipe or standard input."""
    return path.parent if path.is_file() else Path()

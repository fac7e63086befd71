"""What users name: files are replaced as a whole, and nothing but files; standard input may be closed."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TextIO

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

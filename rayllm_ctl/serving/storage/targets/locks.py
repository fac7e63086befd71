"""A lock that all pods see, if the file system has locks."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_HELD = frozenset({errno.EACCES, errno.EAGAIN})
_POLL_SECONDS = 0.5


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a file; `waiting` is called while another process holds it. False if there are no locks.

    The kernel releases it with the process, however that ends. The file stays: another process may wait for it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield _acquire(file, waiting)
    finally:
        os.close(file)


def _acquire(file: int, waiting: Callable[[], None]) -> bool:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            if error.errno not in _HELD:
                raise
        else:
            return True
        waiting()
        time.sleep(_POLL_SECONDS)

"""Why a download ends: a code, what failed, and what to do next."""

from __future__ import annotations

import errno
from typing import Literal
from urllib.parse import urlsplit

FailureCode = Literal[
    "DownloadUnauthorized",
    "DownloadNotFound",
    "DownloadThrottled",
    "DownloadUnreachable",
    "DownloadNoSpace",
    "DownloadCorrupt",
    "DownloadFailed",
]

DONE, RETRY, FINAL = 0, 1, 10
"""Exit codes: complete; another try may succeed; it cannot (podFailurePolicy of the Job)."""

_FINAL = frozenset({"DownloadUnauthorized", "DownloadNotFound", "DownloadNoSpace", "DownloadCorrupt"})


class StorageError(Exception):
    """Ends the download. `message` says what failed and why, `hint` what to do next."""

    def __init__(self, code: FailureCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint

    @property
    def exit_code(self) -> int:
        """That of the process."""
        return FINAL if self.code in _FINAL else RETRY


class Temporary(Exception):
    """A request that failed and may succeed later. After too long a time, `failure` is raised."""

    def __init__(self, failure: StorageError, after: float | None = None) -> None:
        super().__init__(failure.message)
        self.failure, self.after = failure, after


class Stopped(Exception):
    """Another part of the download has failed."""


def no_space(what: str, reason: str) -> StorageError:
    """A volume is full."""
    return StorageError(
        "DownloadNoSpace",
        f"not enough space for {what}: {reason}",
        "kubectl get pvc    # expand the claim, or name a larger one in spec.storage.model",
    )


def of_volume(error: OSError, what: str) -> StorageError:
    """The failure of an access to a volume."""
    text = error.strerror or str(error)
    what = str(error.filename or what)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(what, text)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            "DownloadFailed",
            f"{what} cannot be written: {text}",
            "kubectl describe pvc    # the volume has to be writable for the pods' user, or set fsGroup in spec.pods",
        )
    return StorageError("DownloadFailed", f"{what}: {text}", "kubectl describe pvc    # the state of the volume")


def shown(url: str) -> str:
    """A URL without user, password and query: a query may contain a signature."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

"""Files of web servers, read in ranges: each part of the input is read where it lies, by whichever process needs it."""

from __future__ import annotations

import http.client
import io
import urllib.error
import urllib.request
from typing import Any

import pyarrow as pa
from pyarrow import fs

from rayllm_ctl.serving.batch.failures import FAILED, BatchError

_TIMEOUT_SECONDS = 60.0
_ERRORS = (OSError, http.client.HTTPException)


class Web:
    """What is used of a pyarrow filesystem, for https:// and http://. Errors are BatchErrors."""

    def get_file_info(self, url: str) -> fs.FileInfo:
        """The file at a URL; where there is none, an error."""
        return fs.FileInfo(url, fs.FileType.File, size=_size(url))

    def open_input_file(self, url: str) -> Any:
        """A file to read at any position."""
        return pa.PythonFile(io.BufferedReader(_Remote(url, _size(url)), 1 << 20), mode="r")


class _Remote(io.RawIOBase):
    def __init__(self, url: str, size: int) -> None:
        super().__init__()
        self._url, self._size, self._position = url, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        last = min(self._position + len(buffer), self._size) - 1
        if last < self._position:
            return 0
        try:
            with _get(self._url, self._position, last) as response:
                content = response.read()
        except _ERRORS as error:
            raise _failure(error, self._url) from None
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


def _get(url: str, first: int, last: int) -> Any:
    headers = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - storage.filesystem lets only http(s) pass
    return urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310


def _size(url: str) -> int:
    """Bytes of a file. Asks for its first byte: what is signed for downloads often allows no HEAD."""
    try:
        with _get(url, 0, 0) as response:
            total = (response.headers.get("Content-Range") or "").rpartition("/")[2]
    except _ERRORS as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return 0
        raise _failure(error, url) from None
    if not total.isdigit():
        raise BatchError(
            "InputMissing",
            f"{url} cannot be read: its server does not support range requests",
            "copy the file to a volume or a bucket",
        )
    return int(total)


def _failure(error: Exception, url: str) -> BatchError:
    match error:
        case urllib.error.HTTPError(code=401 | 403):
            return BatchError("AccessDenied", f"access to {url} was denied: HTTP {error.code}", "check the URL")
        case urllib.error.HTTPError(code=404 | 410):
            return BatchError("InputMissing", f"{url} was not found: HTTP {error.code}", "check the URL")
    reason = getattr(error, "reason", None) or error
    return BatchError(
        "Failed", f"{url} cannot be read: {reason}", "check that the pods reach it, then submit again", exit_code=FAILED
    )

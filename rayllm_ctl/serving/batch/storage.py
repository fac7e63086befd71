"""Files on volumes and in object stores, through pyarrow's filesystems.

Paths are a path of a volume (`/data/in`), s3://bucket/key, gs://bucket/key, or for one file to read https://. In
Ray's own form, s3://anonymous@bucket/key, a bucket is read without credentials.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from rayllm_ctl.serving.batch import settings
from rayllm_ctl.serving.batch.failures import BatchError, no_bucket, of_storage
from rayllm_ctl.serving.batch.web import Web
from rayllm_ctl.serving.buckets.filesystems import Access, open_bucket

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its URL or path, bytes, and time of last change in ns (0 where the server tells neither)."""

    path: str
    size: int
    changed: int


def filesystem(path: str, options: settings.Storage) -> tuple[Any, str]:
    """The filesystem of a path, and the path in it. BatchError if its kind is not supported."""
    scheme = urlsplit(path).scheme if "://" in path else ""
    if scheme in ("s3", "gs"):
        access = Access(options.endpoint, options.region, options.anonymous)
        with storage_errors(path):
            return open_bucket(path, access)
    if scheme in ("http", "https"):
        return Web(), path
    if scheme not in ("", "file"):
        raise BatchError(
            "InputMissing",
            f"{path}: {scheme}:// is not supported",
            "use a path of a volume, s3://, gs:// or https://",
        )
    return fs.LocalFileSystem(), path.removeprefix("file://")


class Store:
    """A folder of a filesystem: the job's output."""

    def __init__(self, path: str, options: settings.Storage) -> None:
        self.path = path.rstrip("/")
        if self.path.startswith(("http://", "https://")):
            raise BatchError("AccessDenied", f"{path} cannot be written", "use a path of a volume, s3:// or gs://")
        self._fs, self._root = filesystem(self.path, options)
        self._renames = isinstance(self._fs, fs.LocalFileSystem)

    def names(self, folder: str = "") -> dict[str, int]:
        """Files and folders right below it, or below a folder in it, with the bytes of each file."""
        where = self._inside(folder).rstrip("/")
        with storage_errors(self.path):
            found = self._fs.get_file_info(fs.FileSelector(where, allow_not_found=True))
        return {info.base_name: info.size or 0 for info in found if info.path.rstrip("/") != where}

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        path = self._inside(name)
        with storage_errors(f"{self.path}/{name}"):
            if self._fs.get_file_info(path).type == fs.FileType.NotFound:
                return None
            with self._fs.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read())

    def open(self, name: str) -> Any:
        """A file, to read at any position."""
        with storage_errors(f"{self.path}/{name}"):
            return self._fs.open_input_file(self._inside(name))

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Put a whole file in place at once: a reader sees all of it or nothing."""
        path = self._inside(name)
        with storage_errors(f"{self.path}/{name}"):
            if not self._renames:
                try:
                    with self._fs.open_output_stream(path, compression=None) as stream:
                        stream.write(content)
                except FileNotFoundError:
                    raise no_bucket(self.path) from None  # Nothing else has to be there.
                return
            temporary = self._inside(f"_rayllm/{posixpath.basename(name)}.{os.getpid()}.tmp")
            self._fs.create_dir(posixpath.dirname(temporary), recursive=True)
            with open(temporary, "wb") as file:  # noqa: PTH123 - a path of pyarrow's filesystem
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._fs.move(temporary, path)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with storage_errors(f"{self.path}/{name}"), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._inside(name))

    def _inside(self, name: str) -> str:
        return f"{self._root}/{name}"


@contextlib.contextmanager
def open_file(path: str, options: settings.Storage, offset: int = 0) -> Iterator[io.BufferedReader]:
    """A file to read from a byte on, buffered."""
    filesys, inner = filesystem(path, options)
    with storage_errors(path), filesys.open_input_file(inner) as file:
        if offset:
            file.seek(offset)
        with io.BufferedReader(file, _READ_BYTES) as reader:
            yield reader


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn errors of storage into BatchErrors that name the path."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        # Of GCS, errors that have no errno come as a bare ArrowException.
        if isinstance(error, OSError) or "google::cloud" in str(error):
            raise of_storage(error, what) from error
        raise

"""A folder of a bucket.

An object is there when it is complete, so nothing is renamed: objects have their final names at once, and a small
object beside them records each that is verified. An object that is interrupted is uploaded again from its first byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pyarrow import fs

from rayllm_ctl.serving.storage import marker
from rayllm_ctl.serving.storage.bucket_access import bucket_errors, missing_bucket, open_store
from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.marker import MarkedFile, Marker
from rayllm_ctl.serving.storage.settings import StoreAccess
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.targets.target import TargetOutput

_VERIFIED = ".rayllm-verified"
_READ_BYTES = 4 << 20


class BucketTarget:
    """The folder of an s3:// or gs:// URL."""

    def __init__(self, url: str, store: StoreAccess) -> None:
        self._url = url
        self._fs, self._root = open_store(url, store)
        self._old: Marker | None = None
        self._wrong: frozenset[str] = frozenset()
        self._present: Mapping[str, int] = {}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nothing is locked: two downloads write the same objects, each of them whole."""
        yield

    def marker(self) -> Marker | None:
        """The folder's marker."""
        return marker.parse_marker(self._read(marker.MARKER_NAME))

    def remove_marker(self) -> None:
        """Delete it."""
        self._delete(marker.MARKER_NAME)

    def sizes(self, names: Iterable[str]) -> Mapping[str, int]:
        """The bytes of the objects."""
        with bucket_errors(self._url):
            infos = self._fs.get_file_info(fs.FileSelector(self._root, recursive=True, allow_not_found=True))
        found = {info.path[len(self._root) + 1 :]: info.size for info in infos if info.type == fs.FileType.File}
        return {name: found[name] for name in names if name in found}

    def stream(self, name: str) -> Iterator[bytes]:
        """The content of an object."""
        with (
            bucket_errors(f"{self._url}/{name}"),
            self._fs.open_input_stream(self._path(name), compression=None) as stream,
        ):
            while chunk := stream.read(_READ_BYTES):
                yield chunk

    def prepare(self, listing: Listing, wrong: Iterable[str]) -> None:
        """List what earlier runs have left. From now on objects are replaced, so a marker does not hold."""
        self._wrong = frozenset(wrong)
        self._old = self._old or self.marker()
        self.remove_marker()
        self._present = self.sizes(file.name for file in listing.files)

    def free_bytes(self) -> None:
        """A bucket has no limit that can be asked for."""
        return

    def missing_bytes(self, file: Remote) -> int:
        """All of an object, or nothing."""
        return 0 if self._present.get(file.name) == file.size else file.size

    def existing(self, file: Remote) -> MarkedFile | None:
        """An object that is recorded as verified, or has the source's checksum in the marker."""
        if self._present.get(file.name) != file.size or file.name in self._wrong:
            return None
        old = self._old.files.get(file.name) if self._old else None
        if old and file.sha256 and old.sha256 == file.sha256:
            return old
        try:
            data = json.loads(self._read(self._record(file)) or b"null")
            entry = MarkedFile(data["bytes"], data["sha256"], data["verified"])
            return entry if data["version"] == file.version else None
        except (ValueError, KeyError, TypeError):
            return None

    def unfinished(self, file: Remote) -> int:  # noqa: ARG002 - of the protocol
        """Nothing is left of an interrupted upload."""
        return 0

    def stream_unfinished(self, file: Remote) -> Iterator[bytes]:  # noqa: ARG002 - of the protocol
        """Nothing."""
        return iter(())

    @contextlib.contextmanager
    def writing(self, file: Remote, start: int) -> Iterator[TargetOutput]:  # noqa: ARG002 - of the protocol
        """Upload an object. What is recorded of an earlier one is deleted first."""
        self._delete(self._record(file))
        with self._opened(file.name) as stream:
            yield stream

    def discard(self, file: Remote) -> None:
        """Delete the object."""
        self._delete(file.name)

    def keep(self, file: Remote, entry: MarkedFile) -> None:
        """Compare the object's size, and record it."""
        size = self.sizes([file.name]).get(file.name)
        if size != file.size:
            raise StorageError(
                "DownloadCorrupt",
                f"{self._url}/{file.name} has {size} of {file.size} bytes after it was uploaded",
                "check that nothing else writes there, then delete the failed Job and deploy again",
            )
        self._write(self._record(file), json.dumps({"version": file.version, **asdict(entry)}).encode())

    def finish(self, marker_: Marker) -> None:
        """Write the marker; delete objects of other versions, and the records."""
        for name in set(self._old.files if self._old else ()) - set(marker_.files):
            self._delete(name)
        self._write(marker.MARKER_NAME, marker_.text().encode())
        with bucket_errors(self._url):
            records = self._fs.get_file_info(fs.FileSelector(self._path(_VERIFIED), allow_not_found=True))
        for info in records:
            if info.type == fs.FileType.File:
                self._delete(f"{_VERIFIED}/{info.base_name}")

    def _record(self, file: Remote) -> str:
        return f"{_VERIFIED}/{hashlib.sha256(file.name.encode()).hexdigest()[:32]}.json"

    def _read(self, name: str) -> bytes | None:
        with bucket_errors(f"{self._url}/{name}"):
            if self._fs.get_file_info(self._path(name)).type != fs.FileType.File:
                return None
            with self._fs.open_input_stream(self._path(name), compression=None) as stream:
                return bytes(stream.read())

    def _write(self, name: str, content: bytes) -> None:
        with self._opened(name) as stream:
            stream.write(content)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        with bucket_errors(f"{self._url}/{name}"):
            try:
                with self._fs.open_output_stream(self._path(name), compression=None) as stream:
                    yield stream
            except FileNotFoundError:
                raise missing_bucket(self._url) from None  # Nothing else has to be there.

    def _delete(self, name: str) -> None:
        with bucket_errors(f"{self._url}/{name}"), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

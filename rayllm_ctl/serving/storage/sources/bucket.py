"""A folder of a bucket."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Iterator
from typing import Any

from pyarrow import fs

from rayllm_ctl.serving.buckets.filesystems import lacks_bucket
from rayllm_ctl.serving.storage import marker
from rayllm_ctl.serving.storage.bucket_access import bucket_errors, missing_bucket, open_store
from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.settings import StoreAccess
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.sources.selection import select

_READ_BYTES = 8 << 20
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
"""An ETag of S3 that may be the MD5 of an object: one that was not uploaded in parts."""


class BucketSource:
    """The folder of an s3:// or gs:// URL. If it has a marker of a download, that has the checksums."""

    def __init__(self, url: str, store: StoreAccess) -> None:
        self._url = url.rstrip("/")
        self._fs, self._root = open_store(self._url, store)
        self._open: dict[str, Any] = {}
        self._lock = threading.Lock()

    def list(self) -> Listing:
        """All files below the folder that are needed."""
        with bucket_errors(self._url):
            found = self._fs.get_file_info(fs.FileSelector(self._root, recursive=True, allow_not_found=True))
        infos = [info for info in found if info.type == fs.FileType.File]
        if not infos:
            if lacks_bucket(self._fs, self._root):
                raise missing_bucket(self._url)
            raise StorageError("DownloadNotFound", f"{self._url} has no files", "check the path and the bucket's name")
        described = self._marker({info.path for info in infos})
        listing = select(self._remote(info, described) for info in infos)
        probe = min((file for file in listing.files if file.md5), key=lambda file: file.size, default=None)
        if probe is None or self._is_md5(probe):
            return listing
        files = tuple(Remote(file.name, file.size, file.version, sha256=file.sha256) for file in listing.files)
        return Listing(files, listing.skipped)

    def stream(self, file: Remote, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of an object."""
        with bucket_errors(f"{self._url}/{file.name}"):
            opened = self._opened(file.name)
            while start < stop:
                chunk = opened.read_at(min(_READ_BYTES, stop - start), start)
                if not chunk:
                    return
                start += len(chunk)
                yield chunk

    def _opened(self, name: str) -> Any:
        with self._lock:
            if name not in self._open:
                self._open[name] = self._fs.open_input_file(f"{self._root}/{name}")
            return self._open[name]

    def _remote(self, info: Any, described: marker.Marker | None) -> Remote:
        name = info.path[len(self._root) + 1 :]
        entry = described.files.get(name) if described else None
        if entry is not None and entry.bytes == info.size:
            return Remote(name, info.size, f"sha256:{entry.sha256}", sha256=entry.sha256)
        known = self._metadata(name)
        etag = known.get("etag", "")
        return Remote(name, info.size, f"bucket:{etag or info.mtime_ns}:{info.size}", md5=self._md5(known))

    def _md5(self, known: dict[str, str]) -> str | None:
        """The MD5 that is in the metadata of an object."""
        if "md5hash" in known:  # of GCS; composite objects have none
            return base64.b64decode(known["md5hash"]).hex() or None
        etag = _MD5.fullmatch(known.get("etag", "")) if self._url.startswith("s3://") else None
        return etag[1] if etag else None

    def _metadata(self, name: str) -> dict[str, str]:
        """The metadata of an object, by names in lower case."""
        path = f"{self._root}/{name}"
        with bucket_errors(f"{self._url}/{name}"), self._fs.open_input_stream(path, compression=None) as stream:
            known: dict[str | bytes, str | bytes] = stream.metadata() or {}
        return {_text(key).lower(): _text(value) for key, value in known.items()}

    def _marker(self, paths: set[str]) -> marker.Marker | None:
        path = f"{self._root}/{marker.MARKER_NAME}"
        if path not in paths:
            return None
        with (
            bucket_errors(f"{self._url}/{marker.MARKER_NAME}"),
            self._fs.open_input_stream(path, compression=None) as stream,
        ):
            return marker.parse_marker(stream.read())

    def _is_md5(self, file: Remote) -> bool:
        """Whether the ETags of the bucket are MD5s: those of objects that are encrypted with a key of KMS are not."""
        found = hashlib.md5(usedforsecurity=False)
        for chunk in self.stream(file, 0, file.size):
            found.update(chunk)
        return found.hexdigest() == file.md5


def _text(value: str | bytes) -> str:
    """Of metadata, as which pyarrow has both types."""
    return value.decode() if isinstance(value, bytes) else value

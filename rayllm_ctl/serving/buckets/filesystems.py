"""pyarrow's filesystems of s3:// and gs:// URLs.

In Ray's own form, s3://anonymous@bucket/key, a bucket is read without credentials.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyarrow import fs

ANONYMOUS = "anonymous@"
"""What precedes a bucket that is read without credentials (ray/data/datasource/path_util.py, 2.60)."""

_GCS_SECONDS = 60.0
"""How long requests are tried. By default it is 15 minutes, also where there are no credentials."""

_S3_SECONDS = {"connect_timeout": 5.0, "request_timeout": 30.0}
"""How long a connection, and then an answer, may take. The AWS SDK's 1 and 3 are too short for a busy endpoint."""

_GCS_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
_S3_PLACES = frozenset({"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"})


@dataclass(frozen=True, slots=True)
class Access:
    """How buckets are reached. Without keys, the default chain of the provider gives credentials."""

    endpoint: str | None = None
    region: str | None = None
    anonymous: bool = False
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    key_file: str | None = None
    """The key file of a service account of Google Cloud."""
    background_writes: bool = True
    """Whether parts are uploaded to S3 while others are written; then as much is in memory as waits."""


def open_bucket(url: str, access: Access) -> tuple[Any, str]:
    """The filesystem of an s3:// or gs:// URL, and the path in it."""
    scheme, _, inner = url.partition("://")
    if inner.startswith(ANONYMOUS):
        inner, access = inner.removeprefix(ANONYMOUS), replace(access, anonymous=True)
    if scheme == "s3":
        return s3(inner.partition("/")[0], access), inner
    with _key_file(access.key_file):
        patience = timedelta(seconds=_GCS_SECONDS)
        return fs.GcsFileSystem(anonymous=access.anonymous, retry_time_limit=patience), inner


@functools.lru_cache(maxsize=32)
def s3(bucket: str, access: Access) -> Any:
    """S3 in the region of the bucket, where none is given: requests to another one are not answered."""
    given = {"endpoint_override": access.endpoint, "region": access.region}
    known = {name: value for name, value in given.items() if value}
    if not known and not _S3_PLACES & set(os.environ):
        known["region"] = fs.resolve_s3_region(bucket)
    keys = {
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "session_token": access.session_token,
    }
    known |= {name: value for name, value in keys.items() if value and not access.anonymous}
    return fs.S3FileSystem(
        anonymous=access.anonymous, background_writes=access.background_writes, **_S3_SECONDS, **known
    )


def lacks_bucket(files: Any, path: str) -> bool:
    """Whether an object store has no such bucket. False where that cannot be known.

    Who may read objects of Google Cloud Storage (roles/storage.objectViewer) may not ask for the bucket.
    """
    try:
        return bool(files.get_file_info(path.partition("/")[0]).type == fs.FileType.NotFound)
    except (OSError, pa.ArrowException):
        return False


@contextlib.contextmanager
def _key_file(path: str | None) -> Iterator[None]:
    """Name a key file to Google's library, which reads it when a filesystem is made."""
    before = os.environ.get(_GCS_KEY)
    if path is not None:
        os.environ[_GCS_KEY] = path
    try:
        yield
    finally:
        if path is not None:
            if before is None:
                del os.environ[_GCS_KEY]
            else:
                os.environ[_GCS_KEY] = before

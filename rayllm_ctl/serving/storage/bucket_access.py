"""Buckets of downloads: their filesystem, with the credentials of its role, and their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rayllm_ctl.serving.buckets.errors import bucket_of, first_line, meaning, missing_token
from rayllm_ctl.serving.buckets.filesystems import Access, open_bucket
from rayllm_ctl.serving.storage.failures import StorageError, Temporary, no_space
from rayllm_ctl.serving.storage.settings import StoreAccess


def open_store(url: str, store: StoreAccess) -> tuple[Any, str]:
    """The filesystem of a bucket, and the path of the URL in it."""
    access = Access(
        store.endpoint, store.region, store.anonymous,
        access_key=store.secret("AWS_ACCESS_KEY_ID"), secret_key=store.secret("AWS_SECRET_ACCESS_KEY"),
        session_token=store.secret("AWS_SESSION_TOKEN"), key_file=store.secret("GOOGLE_APPLICATION_CREDENTIALS"),
        background_writes=False,
    )  # fmt: skip
    with bucket_errors(url):
        files, path = open_bucket(url, access)
    return files, path.rstrip("/")


@contextlib.contextmanager
def bucket_errors(what: str) -> Iterator[None]:
    """Turn errors of a bucket into StorageErrors that name the URL, or Temporary if another try may succeed."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        # Of GCS, errors that have no errno come as a bare ArrowException.
        if isinstance(error, OSError) or "google::cloud" in str(error):
            raise _failure(error, what) from error
        raise


def missing_bucket(url: str) -> StorageError:
    """A bucket that does not exist."""
    return StorageError(
        "DownloadNotFound", f"the bucket {bucket_of(url)} does not exist", "check its name, the endpoint and the region"
    )


def _failure(error: Exception, what: str) -> Exception:
    text, kind = first_line(error), meaning(error)
    credentials = (
        "kubectl create secret generic bucket --from-literal=AWS_ACCESS_KEY_ID=ID "
        "--from-file=AWS_SECRET_ACCESS_KEY=FILE, and name it in `secret` of spec.storage.model"
    )
    if what.startswith("gs://"):
        credentials = (
            "kubectl create secret generic bucket --from-file=credentials.json=FILE, "
            "and name it in `secret` of spec.storage.model"
        )
    if kind == "no-token":
        reason = f"there are no credentials: {missing_token(error)}"
        return StorageError("DownloadUnauthorized", f"access to {what} was denied: {reason}", credentials)
    if kind == "no-space":
        return no_space(what, text)
    if kind == "denied":
        return StorageError("DownloadUnauthorized", f"access to {what} was denied: {text}", credentials)
    if kind == "no-bucket":
        return missing_bucket(what)
    if kind == "not-found":
        return StorageError("DownloadNotFound", f"{what} was not found: {text}", "check the path and the bucket's name")
    if kind == "corrupt":
        hint = "upload the object again, then delete the failed Job and deploy again"
        return StorageError("DownloadCorrupt", f"{what} is corrupted at its source: {text}", hint)
    if kind == "throttled":
        hint = "wait, then delete the failed Job and deploy again: the download continues where it ended"
        return Temporary(StorageError("DownloadThrottled", f"{what}: requests are rejected for now: {text}", hint))
    hint = "check the endpoint, and the network policies of the namespace"
    return Temporary(StorageError("DownloadUnreachable", f"{what} cannot be read or written: {text}", hint))

"""The settings file of a download."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rayllm_ctl.serving.storage.failures import StorageError

BUCKETS = ("s3", "gs")
_SOURCES = ("hf", "s3", "gs", "https", "http")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How a bucket is reached. `role`, SOURCE or TARGET, begins the variables with its credentials."""

    role: str
    endpoint: str | None = None
    region: str | None = None
    anonymous: bool = False

    def secret(self, name: str) -> str | None:
        """The value of a variable, such as SOURCE_AWS_ACCESS_KEY_ID; None if it is not set, or empty."""
        return os.environ.get(f"{self.role}_{name}") or None


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """What is downloaded, and to where. `revision` is that of a repository of the Hub."""

    source: str
    target: str
    revision: str | None
    source_store: StoreAccess
    target_store: StoreAccess


def load_settings(path: str) -> StorageSettings:
    """The settings of a JSON file. StorageError if they are not valid."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _invalid(path, str(error)) from error
    if not isinstance(data, dict) or not all(isinstance(data.get(name), str) for name in ("source", "target")):
        raise _invalid(path, "has to have a source and a target")
    source, target = data["source"], data["target"].rstrip("/")
    if urlsplit(source).scheme not in _SOURCES:
        raise _invalid(path, f'the source "{source.partition("?")[0]}" has to be hf://, s3://, gs:// or https://')
    if urlsplit(target).scheme not in ("", *BUCKETS) or not (target.startswith("/") or "://" in target):
        raise _invalid(path, f'the target "{target}" has to be a path, s3:// or gs://')
    revision = data.get("revision")
    if source.startswith("hf://"):
        revision = revision or "main"
    return StorageSettings(
        source, target, revision, _store("SOURCE", data.get("source_store")), _store("TARGET", data.get("target_store"))
    )


def _store(role: str, data: Any) -> StoreAccess:
    given = data or {}
    return StoreAccess(role, given.get("endpoint"), given.get("region"), bool(given.get("anonymous")))


def _invalid(path: str, message: str) -> StorageError:
    return StorageError(
        "DownloadFailed", f"{path}: {message}", "rayllm-ctl deploy -f FILE    # applies the settings again"
    )

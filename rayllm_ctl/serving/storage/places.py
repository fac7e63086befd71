"""The source and the target of settings. Only what they need is imported: not every image has all of it."""

from __future__ import annotations

from urllib.parse import urlsplit

from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.settings import BUCKETS, StorageSettings
from rayllm_ctl.serving.storage.sources.remote import ModelSource
from rayllm_ctl.serving.storage.targets.folder import FolderTarget
from rayllm_ctl.serving.storage.targets.target import Target


def open_source(settings: StorageSettings) -> ModelSource:
    """Where the files come from."""
    scheme, _, rest = settings.source.partition("://")
    try:
        if scheme == "hf":
            from rayllm_ctl.serving.storage.sources.hub import Hub

            return Hub(rest.strip("/"), settings.revision or "main")
        if scheme in BUCKETS:
            from rayllm_ctl.serving.storage.sources import bucket

            return bucket.BucketSource(settings.source, settings.source_store)
        from rayllm_ctl.serving.storage.sources import web

        return web.WebFolder(settings.source)
    except ImportError as error:
        raise _missing(error) from error


def open_target(settings: StorageSettings) -> Target:
    """Where the files go to."""
    if urlsplit(settings.target).scheme not in BUCKETS:
        return FolderTarget(settings.target)
    try:
        from rayllm_ctl.serving.storage.targets import bucket

        return bucket.BucketTarget(settings.target, settings.target_store)
    except ImportError as error:
        raise _missing(error) from error


def _missing(error: ImportError) -> StorageError:
    return StorageError(
        "DownloadFailed",
        f"the image lacks a Python package: {error}",
        "rayllm-ctl image recipe    # builds an image with all that the pods need; --image selects it",
    )

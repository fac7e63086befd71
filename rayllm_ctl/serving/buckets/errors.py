"""What the errors of pyarrow's filesystems mean: they have a text, and seldom a number."""

from __future__ import annotations

import errno
import re
from typing import Literal

Meaning = Literal["no-token", "no-space", "denied", "no-bucket", "not-found", "throttled", "corrupt", "other"]

_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN"
    r"|HTTP response code 40[13]"
    r"|PermissionDenied|Permission denied|PERMISSION_DENIED|UNAUTHENTICATED|access key ID",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|bucket .* not found|bucket does not exist", re.IGNORECASE)
_NOT_FOUND = re.compile(r"\b404\b|NOT_FOUND")
_THROTTLED = re.compile(r"SLOW_DOWN|THROTTLING|\b429\b|RESOURCE_EXHAUSTED|TooManyRequests", re.IGNORECASE)
_CORRUPT = re.compile(r"checksums? mismatch", re.IGNORECASE)
"""What the AWS SDK says of an object that differs from the checksum that the server has of it."""

_NO_TOKEN = re.compile(r"OAuth2 access token.*underlying error message was: (.*?)(?: error_info=|$)")
"""What Google's library says where it has no credentials."""


def meaning(error: Exception) -> Meaning:
    """The kind of a failed access to storage."""
    text = first_line(error)
    if _NO_TOKEN.search(text):
        return "no-token"
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return "no-space"
    if isinstance(error, PermissionError) or _DENIED.search(text):
        return "denied"
    if _NO_BUCKET.search(text):
        return "no-bucket"
    if isinstance(error, FileNotFoundError) or _NOT_FOUND.search(text):
        return "not-found"
    if _CORRUPT.search(text):
        return "corrupt"
    return "throttled" if _THROTTLED.search(text) else "other"


def first_line(error: Exception) -> str:
    """The first line of its text."""
    text = str(error)
    return text.splitlines()[0] if text else "no reason given"


def missing_token(error: Exception) -> str:
    """Why Google's library has no credentials."""
    found = _NO_TOKEN.search(first_line(error))
    return found[1] if found else first_line(error)


def bucket_of(url: str) -> str:
    """s3://BUCKET or gs://BUCKET of a URL in it."""
    scheme, _, inner = url.partition("://")
    return f"{scheme}://{inner.partition('/')[0].rpartition('@')[2]}"

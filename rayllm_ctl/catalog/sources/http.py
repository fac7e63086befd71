"""One bounded HTTP GET: limited in time, size and redirects, with a token that leaves only to the host it is for."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO

from rayllm_ctl.frozen import dataclass

MAX_REDIRECTS = 5
_CHUNK = 65536


class FetchError(Exception):
    """A request that failed: `status` is the HTTP status, None if there was no usable answer.

    code: the hub's X-Error-Code (RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound); retry_after: seconds.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str = "", retry_after: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


@dataclass(frozen=True)
class Answer:
    """`headers` have lower-case names."""

    body: bytes
    headers: Mapping[str, str]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, never from https to http, and drops the token when the host changes."""

    max_redirections = MAX_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is None:
            return None
        old_parts, new_parts = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new_parts.scheme not in ("https", old_parts.scheme):
            raise FetchError(f"redirected from {old_parts.scheme} to {new_parts.scheme}")
        if old_parts.netloc != new_parts.netloc:
            new.remove_header("Authorization")
        return new


def get(
    url: str, *, headers: Mapping[str, str], limit: int, deadline: float, connect_timeout: float, whole: bool = True
) -> Answer:
    """The answer to GET `url`, before `deadline` (time.monotonic) and of at most `limit` bytes.

    whole=False: the first `limit` bytes of a longer answer are enough. FetchError for anything else than success.
    """
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310  hub.endpoint() checks the scheme
    opener = urllib.request.build_opener(_Redirects)
    try:
        with opener.open(request, timeout=connect_timeout) as response:
            body = _body(response, limit, deadline, whole)
            return Answer(body, {name.lower(): value for name, value in response.headers.items()})
    except urllib.error.HTTPError as error:
        with error:
            code, retry = error.headers.get("X-Error-Code", ""), error.headers.get("Retry-After", "")
        redirected = error.code in (301, 302, 303, 307, 308)
        message = "redirected too often" if redirected else f"returned HTTP {error.code}"
        raise FetchError(message, status=error.code, code=code, retry_after=retry) from None
    except TimeoutError as error:
        raise FetchError("timed out") from error
    except urllib.error.URLError as error:
        timed_out = isinstance(error.reason, TimeoutError)
        raise FetchError("timed out" if timed_out else f"cannot be reached ({error.reason})") from error
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"broke off ({type(error).__name__})") from error


def _body(response: IO[bytes], limit: int, deadline: float, whole: bool) -> bytes:
    parts: list[bytes] = []
    size = 0
    expected = getattr(response, "length", None)
    if whole and expected is not None and expected > limit:
        raise FetchError(f"sends {expected / 1e6:.0f} MB where at most {limit / 1e6:.0f} MB are expected")
    while True:
        if time.monotonic() > deadline:
            raise FetchError("timed out")
        read = getattr(response, "read1", response.read)
        part = read(min(_CHUNK, limit + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > limit:
            if whole:
                raise FetchError(f"sends more than {limit / 1e6:.0f} MB")
            break
    if whole and expected is not None and size < expected:
        raise FetchError(f"broke off after {size} of {expected} bytes")
    return b"".join(parts)[:limit]

"""Requests to web servers, over connections that are kept.

By urllib3, which is in every image of Ray: huggingface_hub sends its own by requests before 1.0, by httpx in 1 and by
httpx2 in 2.
"""

from __future__ import annotations

import contextlib
import email.utils
import os
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import certifi
import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.exceptions import SSLError as TLSError
from urllib3.util import Timeout

from rayllm_ctl.serving.storage.failures import StorageError, Temporary, shown

_CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0
_CONNECTIONS = 32
_HEADERS = {"User-Agent": "rayllm-ctl", "Accept-Encoding": "identity"}
_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_REACHABLE_HINT = (
    "check the network policies, DNS and proxy (HTTPS_PROXY) of the namespace; the download continues where it ended"
)


class WebClient:
    """Answers of web servers."""

    def __init__(self) -> None:
        given = next((os.environ[name] for name in _AUTHORITIES if os.environ.get(name)), None)
        self._options: dict[str, Any] = {"maxsize": _CONNECTIONS, "ca_certs": given or certifi.where()}
        self._pools: dict[str, urllib3.PoolManager] = {}

    @contextlib.contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer to a request, of any status. Temporary if there is none, or it breaks off."""
        try:
            answer = self._pool(url).request(
                "GET", url, headers={**_HEADERS, **headers}, preload_content=False, redirect=False, retries=False,
                timeout=Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
            )  # fmt: skip
            try:
                yield answer
            finally:
                answer.close()  # A connection whose answer was read to its end has gone back before.
        except LocationParseError as error:
            raise StorageError("DownloadFailed", f"{shown(url)} is not a valid URL", "correct the URL") from error
        except (HTTPError, OSError) as error:
            raise self._unreachable(error, url) from error

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxies = urllib.request.getproxies_environment()
        bypassed = urllib.request.proxy_bypass_environment(parts.hostname or "", proxies)  # type: ignore[attr-defined]
        proxy = "" if bypassed else proxies.get(parts.scheme, proxies.get("all", ""))
        if proxy not in self._pools:
            made = urllib3.ProxyManager(proxy, **self._options) if proxy else urllib3.PoolManager(**self._options)
            self._pools[proxy] = made
        return self._pools[proxy]

    @staticmethod
    def _unreachable(error: Exception, url: str) -> Exception:
        failure = StorageError(
            "DownloadUnreachable", f"{_host(url)} cannot be reached: {_reason(error)}", _REACHABLE_HINT
        )
        if isinstance(error, TLSError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            failure.hint = "name the certificate authority in SSL_CERT_FILE of spec.engine.env"
            return failure
        return Temporary(failure)


def check_status(answer: urllib3.BaseHTTPResponse, url: str, secret_hint: str) -> None:
    """StorageError or Temporary if the status is not one of success."""
    status = answer.status
    if status in (200, 206):
        return
    what = f"{shown(url)} (HTTP {status})"
    if status in (401, 403):
        raise StorageError("DownloadUnauthorized", f"access to {what} was denied", secret_hint)
    if status in (404, 410):
        raise StorageError("DownloadNotFound", f"{what} was not found", "check spec.storage.model.mirror.from")
    if status == 412:
        raise StorageError(
            "DownloadFailed", f"{what} changed during the download", "the next try of the Job downloads it again"
        )
    if status == 429:
        hint = "wait, then delete the failed Job and deploy again: the download continues where it ended"
        raise Temporary(
            StorageError("DownloadThrottled", f"{_host(url)} rejects further requests for now (HTTP 429)", hint),
            retry_after(answer.headers.get("Retry-After")),
        )
    if status in (408, 425) or status >= 500:
        raise Temporary(
            StorageError("DownloadUnreachable", f"{what} failed", _REACHABLE_HINT),
            retry_after(answer.headers.get("Retry-After")),
        )
    raise StorageError("DownloadFailed", f"unexpected answer of {what}", "check spec.storage.model.mirror.from")


def retry_after(given: str | None) -> float | None:
    """The seconds of a header Retry-After, which has seconds or a date."""
    if given is None:
        return None
    if given.strip().isdigit():
        return float(given)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None


def range_of(start: int, stop: int) -> dict[str, str]:
    """The header that asks for bytes from `start` on, up to `stop`."""
    return {"Range": f"bytes={start}-{stop - 1}"}


def body(answer: urllib3.BaseHTTPResponse, start: int, stop: int, url: str) -> Iterator[bytes]:
    """The bytes from `start` to `stop`, also of a server that sends the whole file."""
    skip = start
    if answer.status == 206:
        span = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if span is None or int(span[1]) != start:
            raise StorageError(
                "DownloadFailed", f"{shown(url)}: the server sent another range than requested", "use another server"
            )
        skip = 0
    left = stop - start
    while left and (chunk := answer.read(_CHUNK_BYTES)):
        if skip:
            skipped = min(skip, len(chunk))
            skip -= skipped
            chunk = chunk[skipped:]
        if chunk:
            chunk = chunk[:left]
            left -= len(chunk)
            yield chunk


def whole(answer: urllib3.BaseHTTPResponse, limit: int, url: str) -> bytes:
    """The body of an answer. StorageError if it is longer than `limit`."""
    found = bytearray()
    while chunk := answer.read(_CHUNK_BYTES):
        found += chunk
        if len(found) > limit:
            raise StorageError("DownloadFailed", f"{shown(url)} is longer than {limit} bytes", "use another server")
    return bytes(found)


def total_of(answer: urllib3.BaseHTTPResponse) -> int | None:
    """The bytes of the whole file, of an answer with all of it or a part; None if the server does not tell."""
    if answer.status == 206:
        span = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        return int(span[2]) if span and span[2].isdigit() else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _reason(error: Exception) -> str:
    """The text of an error, without the address of the connection in memory and without a query."""
    text = re.sub(r"<[^>]*>:? ?|\S*(Connection|Pool)\([^)]*\):? ?", "", str(error)).strip()
    return re.sub(r"\?\S*", "", text) or type(error).__name__


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]

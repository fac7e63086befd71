"""One bounded answer over the session of huggingface-hub: limited in time, size and redirects.

The package itself sets none of these limits. Its session waits without a limit and follows twenty redirects, also from
https to http, whose bodies it reads to the end; so each request is sent by itself here, and its answer read in pieces.
An error is made of the headers alone, since `hf_raise_for_status` reads the whole body. The retries of the package
(`http_backoff`) sleep for as long as the server asks.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from contextlib import closing

import httpx2
from huggingface_hub import get_session
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import hf_raise_for_status

from rayllm_ctl.frozen import dataclass

MAX_REDIRECTS = 5
_requests = logging.getLogger("rayllm_ctl.requests")
"""A line for each request, for --verbose; without queries, which may contain signatures."""

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_OF_ERRORS = ("X-Error-Code", "X-Error-Message", "Retry-After")


class FetchError(Exception):
    """There is no usable answer. kind: offline (none, or one beyond the limits) or broken."""

    def __init__(self, message: str, *, kind: str = "offline") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Answer:
    """The names of `headers` may be written in lower or upper case."""

    body: bytes
    headers: Mapping[str, str]


def open_session() -> httpx2.Client:
    """The session of the process, with the proxies and certificates of the environment.

    FetchError if these cannot be used.
    """
    try:
        return get_session()
    except (ImportError, OSError) as error:
        raise FetchError(f"cannot be reached: the proxy or SSL_CERT_FILE cannot be used ({error})") from error
    except (ValueError, httpx2.InvalidURL) as error:  # whose text may contain the password of the proxy
        raise FetchError("cannot be reached: the address of the proxy is invalid") from error


def get(
    session: httpx2.Client,
    url: str,
    headers: Mapping[str, str],
    limit: int,
    *,
    deadline: float,
    timeout: float,
    whole: bool = True,
) -> Answer:
    """The answer to GET `url`, before `deadline` (time.monotonic) and of at most `limit` bytes.

    timeout: of connecting and of each read. whole=False: the first `limit` bytes of a longer answer are enough.
    HfHubHTTPError for a status of failure, FetchError if there is no usable answer.
    """
    try:
        request = session.build_request("GET", url, headers=headers, timeout=timeout)
        for _ in range(MAX_REDIRECTS + 1):
            with closing(_send(session, request)) as response:
                if not response.has_redirect_location:
                    _raise_for_status(response)
                    return Answer(_body(response, limit, deadline, whole), response.headers)
                request = _redirected(response)
    except HfHubHTTPError:  # which may be a ValueError as well
        raise
    except httpx2.TimeoutException as error:
        raise FetchError("timed out") from error
    except (httpx2.ConnectError, httpx2.ProxyError) as error:
        raise FetchError(f"cannot be reached ({_ERRNO.sub('', str(error))})") from error
    except (httpx2.RequestError, httpx2.InvalidURL, ValueError) as error:
        raise FetchError(f"broke off ({type(error).__name__})") from error
    raise FetchError("redirected too often", kind="broken")


def _send(session: httpx2.Client, request: httpx2.Request) -> httpx2.Response:
    """The response, whose body is not read yet."""
    start = time.monotonic()
    address = f"{request.url.scheme}://{request.url.netloc.decode()}{request.url.path}"
    try:
        response = session.send(request, stream=True, follow_redirects=False)
    except httpx2.HTTPError as error:
        _requests.debug("%s %s failed: %s", request.method, address, type(error).__name__)
        raise
    milliseconds = 1000 * (time.monotonic() - start)
    _requests.debug("%s %s %d in %.0f ms", request.method, address, response.status_code, milliseconds)
    return response


def _redirected(response: httpx2.Response) -> httpx2.Request:
    """The next request; httpx2 leaves out the token if it goes to another host."""
    request = response.next_request
    if request is None:
        raise FetchError("redirected to an invalid address", kind="broken")
    before, after = response.request.url.scheme, request.url.scheme
    if after not in ("https", before):
        raise FetchError(f"redirected from {before} to {after}")
    return request


def _raise_for_status(response: httpx2.Response) -> None:
    if response.is_success:
        return
    headers = {name: response.headers[name] for name in _OF_ERRORS if name in response.headers}
    hf_raise_for_status(httpx2.Response(response.status_code, headers=headers, request=response.request))
    raise FetchError(f"returned HTTP {response.status_code}", kind="broken")


def _body(response: httpx2.Response, limit: int, deadline: float, whole: bool) -> bytes:
    expected = response.headers.get("Content-Length", "")
    if whole and expected.isdigit() and int(expected) > limit:
        raise FetchError(f"sends {int(expected) / 1e6:.0f} MB where at most {limit / 1e6:.0f} MB are expected")
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if time.monotonic() > deadline:
            raise FetchError("timed out")
        if len(body) > limit:
            if whole:
                raise FetchError(f"sends more than {limit / 1e6:.0f} MB")
            break
    return bytes(body[:limit])

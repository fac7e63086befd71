"""The models that a server lists."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request

from rayllm_ctl.loadtest.connection import tls_context
from rayllm_ctl.loadtest.settings import Target

_TIMEOUT = 30.0
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
"""What OpenSSL calls an answer that is not TLS."""


class ListingError(Exception):
    """The models cannot be listed; the message says why. rejected: for want of a valid API key; unreached: the server
    was not reached; tls: for want of a TLS connection."""

    def __init__(self, message: str, *, rejected: bool = False, unreached: bool = False, tls: bool = False) -> None:
        super().__init__(message)
        self.rejected, self.unreached, self.tls = rejected, unreached, tls


def first_model(target: Target) -> str:
    """The first model that a server lists. Raises ListingError."""
    url = f"{target.url.rstrip('/')}/models"
    headers = {"Authorization": f"Bearer {target.keys[0]}"} if target.keys else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - Target has http and https only
    context = tls_context(target) if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as response:  # noqa: S310
            return str(json.loads(response.read())["data"][0]["id"])
    except urllib.error.HTTPError as error:
        raise ListingError(f"GET {url}: HTTP {error.code}", rejected=error.code in (401, 403)) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        tls = isinstance(reason, ssl.SSLError) or (isinstance(error, http.client.BadStatusLine) and context is None)
        raise ListingError(f"GET {url} failed: {_why(reason)}", unreached=True, tls=tls) from error
    except (ValueError, LookupError, TypeError) as error:
        raise ListingError(f"GET {url} lists no model") from error


def _why(reason: object) -> str:
    """Why a server was not reached, without numbers of errors."""
    if isinstance(reason, socket.gaierror):
        return "its name does not resolve"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, ssl.SSLError):
        name = getattr(reason, "reason", None) or str(reason)  # it has one if OpenSSL raised it
        return "the server does not use TLS" if name in _NO_TLS else f"TLS failed ({name})"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return str(reason) or type(reason).__name__

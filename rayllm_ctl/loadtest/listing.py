"""The models that a server lists."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from rayllm_ctl.loadtest.connection import tls_context
from rayllm_ctl.loadtest.settings import Target

_TIMEOUT = 30.0


class ListingError(Exception):
    """The models cannot be listed; the message says why. rejected: for want of an API key."""

    def __init__(self, message: str, rejected: bool = False) -> None:
        super().__init__(message)
        self.rejected = rejected


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
    except OSError as error:
        raise ListingError(f"GET {url} failed: {getattr(error, 'reason', error)}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise ListingError(f"GET {url} lists no model") from error

"""Cross-origin requests: which web pages may call the API from a browser."""

from __future__ import annotations

from rayllm_ctl.serving.gateway.settings import CorsSettings
from rayllm_ctl.serving.gateway.steps import Headers

Pairs = tuple[tuple[bytes, bytes], ...]

_EXPOSED = b", ".join(
    (
        b"x-request-id",
        b"x-prompt-cleaned",
        b"retry-after",
        *(
            b"x-ratelimit-%s-%s" % (figure, kind)
            for figure in (b"limit", b"remaining", b"reset")
            for kind in (b"requests", b"tokens")
        ),
    )
)


def _value(headers: Headers, name: bytes) -> bytes:
    return next((value for key, value in headers if key == name), b"")


def response_headers(headers: Headers, settings: CorsSettings) -> Pairs:
    """Headers of every response. Keys are sent in a header, never by cookies, so credentials are not allowed."""
    if "*" in settings.origins:
        return ((b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _EXPOSED))
    vary = ((b"vary", b"Origin"),)
    origin = _value(headers, b"origin")
    if origin.decode("latin-1") not in settings.origins:
        return vary
    return (*vary, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", _EXPOSED))


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks what a page may send."""
    return method == "OPTIONS" and bool(
        _value(headers, b"origin") and _value(headers, b"access-control-request-method")
    )


def preflight_headers(headers: Headers) -> Pairs:
    """What pages of an allowed origin may send, in addition to `response_headers`."""
    asked = _value(headers, b"access-control-request-headers")[:1024]
    return (
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", asked or b"authorization, content-type, x-request-id"),
        (b"access-control-max-age", b"600"),
    )

"""The address that a request came from, which limits per address count by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

UNKNOWN: Final = "unknown"

_IPV6_PREFIX: Final = 64
"""One customer of a provider has at least a /64 and takes any address in it (RFC 6177, BCP 157)."""


def client_address(scope: Mapping[str, Any], trusted_proxies: int) -> str:
    """The client's address, an IPv6 network of 64 bits as such; `UNKNOWN` where the server knows none.

    Each of the trusted proxies has appended the address that it was connected from to X-Forwarded-For. So the address
    that many from the end is the client's; all before it is what the client says of itself. Without trusted proxies it
    is that of the peer.
    """
    peer = scope.get("client")
    text = str(peer[0]) if peer else ""
    if trusted_proxies:
        values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        hops = [hop.strip() for value in values for hop in value.decode("latin-1").split(",")]
        if values:
            # Fewer hops than proxies: a request from between them, whose first hop is the most distant known.
            text = hops[max(0, len(hops) - trusted_proxies)]
    return _normalized(text) or _normalized(str(peer[0]) if peer else "") or UNKNOWN


@lru_cache(maxsize=1024)
def _normalized(text: str) -> str | None:
    """One spelling for each address, without a port; None if it is not an address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return str(ip_network((address, _IPV6_PREFIX), strict=False))
        address = address.ipv4_mapped
    return str(address)

"""Base URLs of a service, and where objects say that an address was assigned."""

from __future__ import annotations

from collections.abc import Iterable

from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

_DEFAULT_PORTS = {"http": 80, "https": 443}


def base_url(scheme: str, host: str, api: str, *, port: int = 0, prefix: str = "/") -> str:
    """The URL under which clients find `api` ("/v1"). port 0: the scheme's own.

    prefix: of the paths that a rule routes. It is a part of the URL unless the rule admits the API at its own path: a
    controller that is to serve it elsewhere has to rewrite paths.
    """
    shown = f"[{host}]" if ":" in host else host
    shown += f":{port}" if port not in (0, _DEFAULT_PORTS[scheme]) else ""
    own = f"{prefix.rstrip('/')}/"
    return f"{scheme}://{shown}{'' if f'{api}/'.startswith(own) else own.rstrip('/')}{api}"


def unique(urls: Iterable[str]) -> tuple[str, ...]:
    """Each URL once, those over TLS first."""
    return tuple(sorted(dict.fromkeys(urls), key=lambda url: not url.startswith("https:")))


def assigned(item: Object) -> tuple[str, ...]:
    """The addresses and host names in status.loadBalancer of a Service or an Ingress."""
    entries = fields.items(item, "status", "loadBalancer", "ingress")
    return tuple(filter(None, (fields.text(one, "ip") or fields.text(one, "hostname") for one in entries)))

"""Addresses at which clients outside the cluster reach a service."""

from __future__ import annotations

from enum import StrEnum

from rayllm_ctl.frozen import dataclass


class Reach(StrEnum):
    """Whether an address can be used. Pending: waiting may be enough. Rejected: it needs a change."""

    READY = "Ready"
    PENDING = "Pending"
    REJECTED = "Rejected"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class ExternalAddress:
    """What a LoadBalancer, an Ingress or an HTTPRoute makes of a service. `object` is `kind/name`.

    urls: base URLs, which may be known before they can be used. message: why the state is not Ready.
    """

    object: str
    state: Reach
    urls: tuple[str, ...] = ()
    message: str = ""


def format_external(address: ExternalAddress) -> str:
    """An address for people: `https://qwen.example.com/v1 (ingress/qwen)`, `Pending: no address yet (service/x)`."""
    told = [*address.urls] if address.state is Reach.READY else [*address.urls, f"{address.state}: {address.message}"]
    return f"{'  '.join(told)} ({address.object})"

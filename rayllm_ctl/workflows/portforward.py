"""The OpenAI-compatible API of a service, at a port of this machine."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.workflows.services import kind_of

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

MODELS_TIMEOUT = 15.0
"""Seconds for the list of models. Nothing depends on it."""


@dataclass(frozen=True)
class LocalPort:
    """The service at `url`, the base URL of its API. service: the Service in front of it; item: its object."""

    port: int
    service: str
    item: Mapping[str, Any]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def forwarded(
    cluster: Cluster, name: str, namespace: str, port: int, report: Callable[[str], None]
) -> Iterator[LocalPort]:
    """The API of a service at a port on loopback, while the block runs. port 0: any that is free.

    report: takes a line when requests can no longer be forwarded, and when they can be again. Raises UserError while
    the service has no ready pod, UsageError if the port is in use, NotFoundError with the nearest name if there is no
    such service.
    """
    from rayllm_ctl.cluster.permissions import explained
    from rayllm_ctl.cluster.portlistener import listening
    from rayllm_ctl.cluster.services import require

    with explained(cluster, namespace, RAY_SERVICE.rights_for("port-forward")):
        kind = kind_of(cluster, name, namespace)
    with explained(cluster, namespace, kind.rights_for("port-forward")):
        item = require(cluster, kind, name, namespace)
        service = kind.serve_service(name)
        with listening(cluster, namespace, service, port, report) as number:
            yield LocalPort(number, service, item)


def how_it_answers(local: LocalPort) -> str:
    """The models of the service and whether it requires an API key; what it answered instead of a list of models."""
    from rayllm_ctl.cluster.gateway import gateway_of

    asked = "GET /v1/models"
    try:
        connection = http.client.HTTPConnection("127.0.0.1", local.port, timeout=MODELS_TIMEOUT)
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        body = answer.read()
    except TimeoutError:
        return f"{asked} was not answered within {MODELS_TIMEOUT:.0f} s"
    except (OSError, http.client.HTTPException):
        return f"{asked} was not answered"
    if answer.status == 401:
        gateway = gateway_of(local.item)
        return f'{_listed(gateway.models if gateway else ())}; requires an API key ("Authorization: Bearer KEY")'
    try:
        models = tuple(str(one["id"]) for one in json.loads(body)["data"])
    except (ValueError, TypeError, KeyError):
        return f"{asked} was answered with {answer.status} and lists no models"
    return _listed(models)


def _listed(models: tuple[str, ...]) -> str:
    return f"model{'' if len(models) == 1 else 's'} {', '.join(models) or 'unknown'}"

"""The OpenAI-compatible API of a service, at a port of this machine."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.forward.listener import listen_on_loopback
from rayllm_ctl.cluster.ray.gateway import gateway_of
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.serveconfig.routes import ServeRoutes, routes_of
from rayllm_ctl.workflows.services import require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

MODELS_TIMEOUT = 15.0
"""Seconds for the list of models, which is only displayed."""


@dataclass(frozen=True)
class LocalPort:
    """The service at a port. service: the Service in front of it; item: its object."""

    port: int
    service: str
    item: Mapping[str, Any]

    @property
    def has_models(self) -> bool:
        """Whether it has an OpenAI-compatible API: not every Serve configuration of the user's own has one."""
        return MODEL in (self.item["metadata"].get("annotations") or {}) or not self._routes.routes

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"{self._routes.scheme}://127.0.0.1:{self.port}{self.path}"

    @property
    def path(self) -> str:
        """The path of its API."""
        return self._routes.api

    @property
    def applications(self) -> Mapping[str, str]:
        """The URL of each of its applications, by their names."""
        urls = self._routes.urls("127.0.0.1", self.port)
        return dict(zip((one.application for one in self._routes.routes), urls, strict=True))

    @property
    def _routes(self) -> ServeRoutes:
        return routes_of(self.item)


@contextmanager
def forward_api(
    cluster: Cluster, name: str, namespace: str, port: int, report: Callable[[str], None]
) -> Iterator[LocalPort]:
    """The API of a service at a port on loopback, while the block runs. port 0: any that is free.

    report: called with a line when requests can no longer be forwarded, and when they can again. Raises UserError while
    the service has no ready pod, UsageError if the port is in use, NotFoundError with the nearest name if there is no
    such service.
    """
    kind, item = require_service(cluster, name, namespace, RAY_SERVICE.rights_for("port-forward"))
    with explained(cluster, namespace, kind.rights_for("port-forward")):
        service = kind.serve_service(name)
        with listen_on_loopback(cluster, namespace, service, port, report) as number:
            yield LocalPort(number, service, item)


def how_it_answers(local: LocalPort) -> str:
    """The models of the service and whether it requires an API key, or its answer instead of a list of models."""
    path = f"{local.path}/models"
    asked = f"GET {path}"
    try:
        connection = http.client.HTTPConnection("127.0.0.1", local.port, timeout=MODELS_TIMEOUT)
        connection.request("GET", path)
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

"""Where the applications of a RayService answer: their paths, and that of the OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.llm_applications import pattern_of
from rayllm_ctl.model.kube.names import INGRESS_BUILDER
from rayllm_ctl.serveconfig.applied import applied_config_if_readable
from rayllm_ctl.serveconfig.schema import DEFAULT_APPLICATION

API = "/v1"
"""The path of the OpenAI-compatible API below the route of its application."""


@dataclass(frozen=True)
class ServeRoute:
    """An application that answers HTTP requests. prefix: the path of its requests; models: it has the API."""

    application: str
    prefix: str
    models: bool


@dataclass(frozen=True)
class ServeRoutes:
    """The routes of a RayService. scheme: http or https. port: of its Service."""

    routes: tuple[ServeRoute, ...]
    scheme: str = "http"
    port: int = kuberay.SERVE_PORT

    @property
    def api(self) -> str:
        """The path of the OpenAI-compatible API, that of the first application that has one."""
        prefix = next((one.prefix for one in self.routes if one.models), "/")
        return f"{prefix.rstrip('/')}{API}"

    def urls(self, host: str, port: int | None = None) -> tuple[str, ...]:
        """The address of each application. port: another one than that of the Service."""
        return tuple(f"{self.scheme}://{host}:{port or self.port}{one.prefix}" for one in self.routes)


def routes_of(item: Mapping[str, Any]) -> ServeRoutes:
    """The routes of a RayService, as its object says; none of another object, and of a configuration that cannot be
    read."""
    config = applied_config_if_readable(item)
    if not config:
        return ServeRoutes(())
    http = config.get("http_options")
    https = isinstance(http, Mapping) and bool(http.get("ssl_certfile"))
    port = kuberay.serve_ports(item).get(kuberay.SERVE, kuberay.SERVE_PORT)
    return ServeRoutes(tuple(_routes(config)), "https" if https else "http", port)


def _routes(config: Mapping[str, Any]) -> Iterator[ServeRoute]:
    listed = config.get("applications")
    for application in listed if isinstance(listed, list) else ():
        if not isinstance(application, Mapping):
            continue
        prefix = application.get("route_prefix", "/")
        if isinstance(prefix, str):
            with_models = pattern_of(application) is not None or application.get("import_path") == INGRESS_BUILDER
            yield ServeRoute(str(application.get("name", DEFAULT_APPLICATION)), prefix, with_models)

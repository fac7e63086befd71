"""Talk to a service through the API server's service proxy: nothing but the API server has to be reachable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api import service_proxy as proxy
from rayllm_ctl.cluster.api.errors import NotFoundError, UnreachableError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.api.service_proxy import ServiceError, request_json
from rayllm_ctl.cluster.forward import direct
from rayllm_ctl.cluster.lookup.services import find, require
from rayllm_ctl.cluster.ray.gateway import gateway_of
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.text.json_form import json_key
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.serveconfig.routes import API, ServeRoutes, routes_of

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


_NOT_UP = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
"""Status codes of proxies in front of a service that does not serve."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a service. `url` is reachable inside the cluster; `service` is the Service in front of it.

    kind: of the object that runs it. key_required: whether requests must send an API key. path: of the API.
    """

    name: str
    namespace: str
    url: str
    models: tuple[str, ...]
    service: str
    kind: str = field(metadata=json_key("objectKind"))
    key_required: bool = False
    path: str = API


class NoModelsError(UserError):
    """A service of the user's own Serve configuration has no OpenAI-compatible API. service: its object."""

    def __init__(self, service: Object) -> None:
        self.service = service
        metadata = service["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        super().__init__(
            f"service {namespace}/{name} has no OpenAI-compatible API: GET /v1/models lists no models",
            hint=(
                f"rayllm-ctl endpoint {name} -n {namespace}         # the addresses of its applications",
                f"rayllm-ctl port-forward {name} -n {namespace}     # the same at a port of this machine",
            ),
        )


def endpoint_url(kind: str, name: str, namespace: str, routes: ServeRoutes | None = None) -> str:
    """The base URL of a service's OpenAI-compatible API, as clients in the cluster use it. kind: of its object. routes:
    of its applications, if known."""
    known = routes or ServeRoutes(())
    return f"{known.scheme}://{WORKLOADS[kind].serve_service(name)}.{namespace}:{known.port}{known.api}"


def endpoint(cluster: Cluster, name: str, namespace: str) -> Endpoint:
    """The OpenAI-compatible address of a service and the models it serves.

    Raises UserError while it does not serve, and NotFoundError with the nearest name if there is no such service.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("chat")):
        routes = ServeRoutes(())
        try:
            found = _models(cluster, name, namespace)
        except ClusterError:
            raise
        except UserError as error:
            routes = _routes_instead(cluster, name, namespace, error)
            found = _models(cluster, name, namespace, routes.api)
        if isinstance(found, UserError):
            require(cluster, RAY_SERVICE, name, namespace)
            raise found
    kind, answer = found
    if answer is None:
        return _keyed(cluster, kind, name, namespace)
    models = tuple(str(entry["id"]) for entry in _listed(answer) if isinstance(entry, Mapping) and "id" in entry)
    if not models:
        _require_a_model(cluster, name, namespace)
        raise UserError(
            f"service {namespace}/{name} answers, but serves no model", hint=f"rayllm-ctl status {name} -n {namespace}"
        )
    url = endpoint_url(kind.name, name, namespace, routes)
    return Endpoint(name, namespace, url, models, kind.serve_service(name), kind.name, path=routes.api)


def _keyed(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> Endpoint:
    """The address of a service that requires keys, and the models that its object names."""
    gateway = gateway_of(cluster.get(kind.name, name, namespace))
    models = gateway.models if gateway is not None else ()
    url = endpoint_url(kind.name, name, namespace)
    return Endpoint(name, namespace, url, models, kind.serve_service(name), kind.name, key_required=True)


def _models(
    cluster: Cluster, name: str, namespace: str, api: str = API
) -> tuple[WorkloadKind, Mapping[str, Any] | None] | UserError:
    """The kind whose Service answers, and its answer (None: it requires an API key); the first kind's error where there
    is no Service of any."""
    missing: UserError | None = None
    for kind in WORKLOADS.values():
        try:
            return kind, request_json(cluster, namespace, kind.serve_service(name), kuberay.SERVE, f"{api}/models")
        except NotFoundError as error:
            missing = missing or error
        except ServiceError as error:
            if error.status != 401:
                raise
            return kind, None
    assert missing is not None
    return missing


def _listed(answer: Mapping[str, Any]) -> Sequence[Any]:
    data = answer.get("data")
    return data if isinstance(data, list) else []


def _routes_instead(cluster: Cluster, name: str, namespace: str, error: UserError) -> ServeRoutes:
    """The routes of a service whose API is not at its root. Raises NoModelsError if it has none, else `error`."""
    status = error.status if isinstance(error, ServiceError) else None
    if status in _NOT_UP:
        raise error
    service = _require_a_model(cluster, name, namespace)
    routes = routes_of(service) if service is not None else ServeRoutes(())
    if status != HTTPStatus.NOT_FOUND or routes.api == API:
        raise error
    return routes


def _require_a_model(cluster: Cluster, name: str, namespace: str) -> Object | None:
    """The service as far as it can be read. Raises NoModelsError for a Serve configuration of the user: it need not
    have an OpenAI API."""
    try:
        service = find(cluster, RAY_SERVICE, name, namespace)
    except UnreachableError:
        raise  # then the failure is not the service's
    except ClusterError:
        return None
    if service is not None and MODEL not in service["metadata"].get("annotations", {}):
        raise NoModelsError(service)
    return service


def choose_model(address: Endpoint, model: str | None) -> str:
    """The named model, or the first. Raises UserError if the service does not serve it."""
    if model is None:
        return address.models[0]
    if model in address.models:
        return model
    close = nearest(model, address.models)
    raise UserError(
        f"service {address.namespace}/{address.name} does not serve {quoted(model)}: "
        f"it serves {', '.join(address.models)}",
        hint=f"--model {close or address.models[0]}",
    )


def require_key(address: Endpoint, key: str | None) -> None:
    """Raise UserError if a service requires an API key and there is none."""
    if address.key_required and key is None:
        created = f"rayllm-ctl keys create {address.name} -n {address.namespace} --key-name NAME"
        raise UserError(
            f"service {address.namespace}/{address.name} requires an API key",
            hint=(f"export RAYLLM_API_KEY=$({created})", "--api-key-file FILE"),
        )


def ask(
    cluster: Cluster,
    address: Endpoint,
    model: str,
    messages: Sequence[Mapping[str, str]],
    settings: Mapping[str, Any],
    key: str | None = None,
) -> Iterator[str]:
    """Stream the model's answer to `messages`, piece by piece. `settings` are further fields of the request.

    key: the API key, for a service that requires one; it is sent to no other.
    """
    body = {"model": model, "messages": list(messages), "stream": True, **settings}
    path = f"{address.path}/chat/completions"
    if key is not None and address.key_required:
        stream = direct.open_stream(cluster, address.namespace, address.service, path, body, key)
    else:
        stream = proxy.open_stream(cluster, address.namespace, address.service, kuberay.SERVE, path, body)
    with stream as lines:
        for line in lines:
            text = line.removeprefix("data:").strip()
            if not line.startswith("data:") or not text:
                continue
            if text == "[DONE]":
                return
            yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    try:
        chunk = json.loads(text)
    except ValueError as error:
        raise UserError(f"the service streamed invalid JSON: {text[:200]}") from error
    if "error" in chunk:
        problem = chunk["error"]
        raise UserError(
            f"the engine answered: {problem.get('message', problem) if isinstance(problem, dict) else problem}"
        )
    for choice in chunk.get("choices", []):
        piece = (choice.get("delta") or {}).get("content")
        if piece:
            yield piece

"""Talk to a service through the API server's service proxy: nothing but the API server has to be reachable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.labels import MODEL

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Endpoint:
    """Where a service answers. `url` is reachable inside the cluster."""

    name: str
    namespace: str
    url: str
    models: tuple[str, ...]


def endpoint_url(name: str, namespace: str) -> str:
    """The base URL of a service's OpenAI-compatible API, as clients in the cluster use it."""
    return f"http://{RAY_SERVICE.serve_service(name)}.{namespace}:{kuberay.SERVE_PORT}/v1"


def endpoint(cluster: Cluster, name: str, namespace: str) -> Endpoint:
    """The OpenAI-compatible address of a service and the models it serves.

    Raises UserError while it does not serve, and NotFoundError with the nearest name if there is no such service.
    """
    from rayllm_ctl.cluster.failures import NotFoundError
    from rayllm_ctl.cluster.permissions import explained
    from rayllm_ctl.cluster.proxy import request_json
    from rayllm_ctl.cluster.services import require

    with explained(cluster, namespace, RAY_SERVICE.rights_for("chat")):
        try:
            answer = request_json(cluster, namespace, RAY_SERVICE.serve_service(name), kuberay.SERVE, "/v1/models")
        except NotFoundError:
            require(cluster, RAY_SERVICE, name, namespace)
            raise
        except ClusterError:
            raise
        except UserError:
            _require_a_model(cluster, name, namespace)
            raise
    models = tuple(str(entry["id"]) for entry in _listed(answer) if isinstance(entry, Mapping) and "id" in entry)
    if not models:
        _require_a_model(cluster, name, namespace)
        raise UserError(
            f"service {namespace}/{name} answers, but serves no model", hint=f"rayllm-ctl status {name} -n {namespace}"
        )
    return Endpoint(name, namespace, endpoint_url(name, namespace), models)


def _listed(answer: Mapping[str, Any]) -> Sequence[Any]:
    data = answer.get("data")
    return data if isinstance(data, list) else []


def _require_a_model(cluster: Cluster, name: str, namespace: str) -> None:
    """Raise UserError where the service is of the user's own Serve configuration: it need not have an OpenAI API."""
    from rayllm_ctl.cluster.services import find

    try:
        service = find(cluster, RAY_SERVICE, name, namespace)
    except ClusterError:
        return
    if service is not None and MODEL not in service["metadata"].get("annotations", {}):
        raise UserError(
            f"service {namespace}/{name} has no OpenAI-compatible API: GET /v1/models lists no models",
            hint=(
                f"rayllm-ctl serve-config {name} -n {namespace}     # its applications",
                f"kubectl port-forward -n {namespace} service/{RAY_SERVICE.serve_service(name)} :serve",
            ),
        )


def ask(
    cluster: Cluster, where: Endpoint, messages: Sequence[Mapping[str, str]], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Stream the answer to `messages`, piece by piece. `settings` are further fields of the chat completion request."""
    from rayllm_ctl.cluster.proxy import open_stream

    body = {"model": where.models[0], "messages": list(messages), "stream": True, **settings}
    path = "/v1/chat/completions"
    service = RAY_SERVICE.serve_service(where.name)
    with open_stream(cluster, where.namespace, service, kuberay.SERVE, path, body) as lines:
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
        raise UserError(f"the service streamed something that is not JSON: {text[:200]}") from error
    if "error" in chunk:
        problem = chunk["error"]
        raise UserError(
            f"the engine answered: {problem.get('message', problem) if isinstance(problem, dict) else problem}"
        )
    for choice in chunk.get("choices", []):
        piece = (choice.get("delta") or {}).get("content")
        if piece:
            yield piece

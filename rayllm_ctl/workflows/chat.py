"""Talk to a service through the API server's service proxy: nothing but the API server has to be reachable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import UserError

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

PORT = 8000
"""Ray Serve's HTTP port, which KubeRay's serve service forwards."""


@dataclass(frozen=True)
class Endpoint:
    """Where a service answers. `url` is reachable inside the cluster."""

    name: str
    namespace: str
    url: str
    models: tuple[str, ...]


def serve_service(name: str) -> str:
    """The Service that KubeRay makes for a RayService once its applications run."""
    return f"{name}-serve-svc"


def endpoint_url(name: str, namespace: str) -> str:
    """The base URL of a service's OpenAI-compatible API, as clients in the cluster use it."""
    return f"http://{serve_service(name)}.{namespace}:{PORT}/v1"


def endpoint(cluster: Cluster, name: str, namespace: str) -> Endpoint:
    """The OpenAI-compatible address of a service and the models it serves. UserError while it does not serve."""
    from rayllm_ctl.cluster.proxy import request_json

    answer = request_json(cluster, namespace, serve_service(name), PORT, "/v1/models")
    models = tuple(str(entry["id"]) for entry in answer.get("data", []) if isinstance(entry, Mapping) and "id" in entry)
    return Endpoint(name, namespace, endpoint_url(name, namespace), models)


def ask(
    cluster: Cluster, where: Endpoint, messages: Sequence[Mapping[str, str]], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Stream the answer to `messages`, piece by piece. `settings` are further fields of the chat completion request."""
    from rayllm_ctl.cluster.proxy import open_stream

    body = {"model": where.models[0], "messages": list(messages), "stream": True, **settings}
    path = "/v1/chat/completions"
    with open_stream(cluster, where.namespace, serve_service(where.name), PORT, path, body) as lines:
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

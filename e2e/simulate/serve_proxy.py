"""Serve's HTTP proxy (port 8000) of a simulated pod: health, routes, and OpenAI's API with made-up answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from e2e.images.engine.rayllm_standin import replies
from e2e.simulate import answers
from e2e.simulate.clusters import Cluster
from e2e.simulate.http import Handler, Reply, json_reply, stream_reply, text_reply
from e2e.simulate.serve import Application


@dataclass(frozen=True)
class _Route:
    """What a request needs of the cluster once its lock is released."""

    path: str
    models: dict[str, bool]
    tokens_per_second: float


class ProxyHandler(Handler):
    """Answers of the proxy. A pod without one (a worker that holds no replica) answers 503; really it would refuse."""

    def reply(self, path: str, query: dict[str, str], body: bytes) -> Reply:  # noqa: ARG002 - it takes no query
        with self.server.clusters.at(self.asked) as found:
            if found is None or found[0] not in answers.proxies(found[1].serve, found[1].pods):
                return text_reply("no proxy here", 503)
            cluster = found[1]
            if path == "/-/healthz":
                return text_reply("success")
            running = {name: app for name, app in cluster.serve.applications.items() if app.deployments}
            if path == "/-/routes":
                routes = {app.config.get("route_prefix", "/"): name for name, app in running.items()}
                return json_reply({route: name for route, name in routes.items() if route is not None})
            route = _route(cluster, path)
        if route is None:
            return text_reply(f"Path '{path}' not found. Ping http://.../-/routes for available routes.", 404)
        if route.path == "/v1/models":
            return json_reply({"object": "list", "data": [_model(one) for one in route.models]})
        if route.path == "/v1/chat/completions":
            return self._complete(route, json.loads(body), replies.chat_ask, chat=True)
        if route.path == "/v1/completions":
            return self._complete(route, json.loads(body), replies.completion_ask, chat=False)
        return json_reply({"detail": "Not Found"}, 404)

    def _complete(
        self, route: _Route, request: dict[str, Any], read: Callable[[dict[str, Any]], replies.Ask], *, chat: bool
    ) -> Reply:
        ask = read(request)
        if ask.model not in route.models:
            return json_reply(_error(f'Could not find model "{ask.model}".', 404), 404)
        if not route.models[ask.model]:
            # Serve holds the request back until a replica is there; nobody waits for that here.
            return json_reply(_error(f"no replica of {ask.model} is running", 503), 503)
        words = _paced(ask, route.tokens_per_second)
        if request.get("stream"):
            return stream_reply(_events(replies.Stream(ask, chat=chat), words))
        return json_reply((replies.chat_response if chat else replies.completion_response)(ask, list(words)))


def _route(cluster: Cluster, path: str) -> _Route | None:
    """The application with the longest prefix of the path."""
    matching = []
    for app in cluster.serve.applications.values():
        if (route := app.config.get("route_prefix", "/")) is None:
            continue
        prefix = str(route).rstrip("/")
        if app.deployments and (path == prefix or path.startswith(prefix + "/")):
            matching.append((prefix, app))
    if not matching:
        return None
    prefix, app = max(matching, key=lambda one: len(one[0]))
    reached = [app, *(cluster.serve.applications[name] for name in _behind(app) if name in cluster.serve.applications)]
    models = {
        one.spec.model_id: any(replica.running for replica in one.replicas)
        for application in reached
        for one in application.deployments.values()
        if one.spec.model_id
    }
    return _Route(path.removeprefix(prefix), models, cluster.settings.tokens_per_second)


def _behind(app: Application) -> Iterator[str]:
    """The applications of the models that an ingress knows from its user_config."""
    for deployment in app.deployments.values():
        for model in (deployment.spec.config.get("user_config") or {}).get("models") or []:
            yield str(model["application"])


def _paced(ask: replies.Ask, tokens_per_second: float) -> Iterator[str]:
    for word in replies.tokens(ask):
        if tokens_per_second:
            time.sleep(1 / tokens_per_second)
        yield word


def _events(stream: replies.Stream, words: Iterator[str]) -> Iterator[str]:
    yield from stream.opening()
    for word in words:
        yield stream.event(word)
    yield from stream.closing()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "owned_by": "organization-owner", "permission": [], "metadata": {}}


def _error(message: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": "NotFoundError" if code == 404 else "Unavailable", "code": code}}

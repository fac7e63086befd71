"""The Serve application in front of the models of a service, each of which has an application of its own.

Everything that may change stands in its `user_config`, which its replicas take up in place. Its args are constant: Ray
Serve restarts all replicas of an application whose args change (ray/serve/_private/version.py 2.60).
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from ray import serve
from ray.exceptions import RayTaskError
from ray.llm._internal.serve.core.configs.openai_api_models import ErrorResponse
from ray.serve.deployment import Application
from ray.serve.llm import ingress as llm

from rayllm_ctl.serving import logs, ray_router, retries
from rayllm_ctl.serving.api import api
from rayllm_ctl.serving.configurator import Configurator
from rayllm_ctl.serving.errors import EngineError, cannot_follow, check_event, constrained_by, has_ended, is_lost
from rayllm_ctl.serving.gateway.application import RETRIED, TAKEN, check_model
from rayllm_ctl.serving.gateway.body.endpoints import CHAT, COMPLETIONS, Endpoint, check_body
from rayllm_ctl.serving.gateway.body.engines import of_engine
from rayllm_ctl.serving.gateway.middleware import Gateway
from rayllm_ctl.serving.gateway.reader import fields
from rayllm_ctl.serving.gateway.settings import Model
from rayllm_ctl.serving.gateway.user_config import read_gateway, read_models
from rayllm_ctl.serving.ray_metrics import RayMetrics
from rayllm_ctl.serving.routes import RETRY_SECONDS, Routes
from rayllm_ctl.serving.serve_load import Report, ServeLoad
from rayllm_ctl.serving.spread import wait_for_nodes

logger = logging.getLogger("rayllm.gateway")

MAX_ONGOING_REQUESTS: Final = 100_000
"""Requests wait in front of the models, where they are counted, not in front of the ingress (Ray's default is 5)."""

GC_THRESHOLD: Final = 10_000
"""Objects that may be made before Python looks for cycles. A request makes thousands; Python's default is 700."""

_CHECKED: Final = {"chat": CHAT, "completions": COMPLETIONS}
"""Endpoints by the methods of Ray's server."""


def build(args: dict[str, Any]) -> Application:
    """The application. `args` is empty; the models stand in the user_config of its deployment."""
    fields(args, "args", set())
    wait_for_nodes()
    deployment = serve.deployment(
        serve.ingress()(OpenAiIngress), name="OpenAiIngress", max_ongoing_requests=MAX_ONGOING_REQUESTS
    )
    return deployment.bind()


class OpenAiIngress(llm.OpenAiIngress):  # type: ignore[misc]
    """Ray's ingress with models that come, change and go while it runs."""

    def __init__(self) -> None:
        super().__init__({}, {})
        gc.set_threshold(GC_THRESHOLD)
        logs.to_serve(logs.GATEWAY)
        self._access_log = logs.ServeAccessLog()
        self._routes = Routes(())
        self._load = ServeLoad(_ingress)
        self._gateway = Gateway(api(self))
        self._configurator = Configurator(self._gateway, self._load, RayMetrics())
        self._searching: asyncio.Task[None] | None = None

    async def __serve_build_asgi_app__(self) -> Gateway:
        return self._gateway

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Take up other models and other settings of the gateway, both at once or, with an error, neither."""
        given = fields(user_config, "user_config", {"models", "gateway"})
        models, gateway = read_models(given.get("models")), read_gateway(given.get("gateway"))
        routes = await Routes.connect(models, _handle)
        # Nothing is awaited before both have changed, so that no request sees half of it.
        if self._searching is not None:
            self._searching.cancel()
        self._configurator.configure(models, gateway)
        self._access_log.enabled = gateway is None
        self._use(routes)
        self._searching = None if routes.complete else asyncio.create_task(self._search(models))
        await self._configurator.close_replaced()

    async def _search(self, models: tuple[Model, ...]) -> None:
        """Look for deployments that are not there yet until all are."""
        while not self._routes.complete:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                self._use(await Routes.connect(models, _handle))
            except Exception:
                logger.exception("Looking for the deployments of models failed; it continues")

    def _use(self, routes: Routes) -> None:
        self._routes = routes
        self._load.follow(routes)

    async def report(self) -> Report:
        """The load that the other replicas of the ingress ask for."""
        return self._load.report()

    async def models(self) -> Any:
        return self._routes.cards()

    async def model_data(self, model: str) -> Any:
        return self._routes.card(model)

    def _get_response(self, *, body: Any, call_method: str, raw_request: Any = None) -> AsyncIterator[Any]:
        """What a replica of the model answers, or another one if it is lost before. Raises UnknownModel, Rejected."""
        name = self._routes.model_id(body.model)
        if raw_request is not None:
            check_model(raw_request.scope, name)
        model, handle = self._routes.model(name), self._routes.handle(name)
        sent = ray_router.Call(handle, raw_request.scope.get(TAKEN) if raw_request is not None else None)

        def call() -> AsyncGenerator[Any, None]:
            asks = _Request(name, sent)
            answers = llm.OpenAiIngress._get_response(asks, body=body, call_method=call_method, raw_request=raw_request)
            if model.engine == "transformers":
                return self._of_transformers(answers, _CHECKED.get(call_method), raw_request)
            return _of_vllm(answers, constrained_by(body))

        def lost(error: Exception) -> bool:
            if has_ended(error):
                sent.avoid()
            return is_lost(error)

        def retried(error: Exception) -> None:
            logger.warning("A replica was lost; the request that it processed goes to another one", exc_info=error)
            if raw_request is not None and (note := raw_request.scope.get(RETRIED)):
                note()

        return retries.answers(call, lost, lambda: ray_router.replicas(handle), retried)

    async def _of_transformers(
        self, answers: AsyncGenerator[Any, None], endpoint: Endpoint | None, raw_request: Any
    ) -> AsyncGenerator[Any, None]:
        """What the Transformers engine answers, with two things more.

        vLLM's models of requests convert values ("0.5" to 0.5) before any engine sees them, so types are checked here
        where no gateway did; and an error keeps the name of its field, which Ray's ingress drops.
        """
        if endpoint and raw_request is not None and self._gateway.state is None:
            check_body(of_engine(endpoint, "transformers"), await raw_request.json())
        async with aclosing(answers):
            async for answer in answers:
                first = answer[0] if isinstance(answer, list) else answer
                if isinstance(first, ErrorResponse):
                    raise EngineError(first.error.code, first.error.type, first.error.message, first.error.param)
                yield answer


class _Request:
    """What Ray's `_get_response` asks of an ingress, for one request."""

    def __init__(self, name: str, call: ray_router.Call) -> None:
        self._name, self._call = name, call

    async def _get_model_id(self, _: str | None) -> str:
        return self._name

    def _get_configured_serve_handle(self, _: str) -> ray_router.Call:
        return self._call


async def _of_vllm(answers: AsyncGenerator[Any, None], constraint: str | None) -> AsyncGenerator[Any, None]:
    """constraint: the field of the request that has a schema for the answer."""
    async with aclosing(answers):
        try:
            async for answer in answers:
                check_event(answer)
                if constraint and (rejected := cannot_follow(answer, constraint)):
                    raise rejected
                yield answer
        except RayTaskError as error:
            if constraint and (rejected := cannot_follow(error, constraint)):
                logger.warning("An answer with %s failed in the engine", constraint, exc_info=error)
                raise rejected from None
            raise


async def _handle(deployment: str, application: str) -> Any:
    """A handle whose router runs on this event loop. KeyError if there is no such deployment."""
    handle = await asyncio.to_thread(serve.get_deployment_handle, deployment, app_name=application)
    ray_router.run_here(handle)
    return handle


async def _ingress() -> Any:
    own = serve.get_replica_context()
    return await _handle(own.deployment, own.app_name)

"""The FastAPI application of the ingress: OpenAI's endpoints, and errors that tell nothing of the inside."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from ray.exceptions import RayTaskError
from ray.llm._internal.common.errors import VLLM_CLIENT_ERRORS
from ray.llm._internal.serve.core.configs.openai_api_models import OpenAIHTTPException
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rayllm_ctl.serving.error_answers import ErrorAnswers
from rayllm_ctl.serving.errors import LOST, EngineError, is_lost
from rayllm_ctl.serving.gateway.errors import Rejected, error_body
from rayllm_ctl.serving.gateway.http.upstream import UNAVAILABLE
from rayllm_ctl.serving.gateway.steps import Rejection
from rayllm_ctl.serving.routes import ModelNotReady, UnknownModel

logger = logging.getLogger("rayllm.gateway")

RETRY_AFTER: Final = ((b"retry-after", b"5"),)
"""For models that are not there (yet); how long their start takes is not known here."""


class Endpoints(Protocol):
    """What an ingress of Ray Serve LLM answers with; the annotations of its methods state their bodies."""

    chat: Callable[..., Awaitable[Response]]
    completions: Callable[..., Awaitable[Response]]
    embeddings: Callable[..., Awaitable[Response]]
    transcriptions: Callable[..., Awaitable[Response]]
    score: Callable[..., Awaitable[Response]]
    tokenize: Callable[..., Awaitable[Response]]
    detokenize: Callable[..., Awaitable[Response]]
    models: Callable[[], Awaitable[Any]]
    model_data: Callable[[str], Awaitable[Any]]


def api(endpoints: Endpoints) -> FastAPI:
    """The application. Its pages of documentation are closed by a gateway, unless that is told to open them."""
    app = FastAPI(title="OpenAI-compatible API")
    app.get("/v1/models", response_model=None)(endpoints.models)
    app.get("/v1/models/{model:path}", response_model=None)(endpoints.model_data)
    app.post("/v1/chat/completions")(endpoints.chat)
    app.post("/v1/completions")(endpoints.completions)
    app.post("/v1/embeddings")(endpoints.embeddings)
    app.post("/v1/audio/transcriptions")(endpoints.transcriptions)
    app.post("/v1/score")(endpoints.score)
    app.post("/tokenize")(endpoints.tokenize)
    app.post("/detokenize")(endpoints.detokenize)
    app.get("/health")(health)
    app.add_exception_handler(RequestValidationError, _answer)
    app.add_exception_handler(HTTPException, _answer)
    app.add_middleware(ErrorAnswers, rejection=rejection)
    return app


async def health() -> dict[str, str]:
    """The ingress answers; models have states of their own."""
    return {"status": "ok"}


def rejection(error: Exception) -> Rejection:
    """What a client is told of an error. What only the log may say is logged here."""
    match error:
        case UnknownModel():
            return Rejection(404, "The model does not exist", "model_not_found", "model")
        case ModelNotReady() | DeploymentUnavailableError():
            return _unavailable("model_not_ready", "model")
        case Rejected():
            return error.rejection
        case EngineError():
            if error.rejection.status == 503:
                return _unavailable(error.rejection.code)
            return error.rejection
        case BackPressureError():
            return _unavailable("queue_full")
        case RequestValidationError():
            return _validation(error)
        case HTTPException():
            return _of_status(error.status_code, str(error.detail))
        case OpenAIHTTPException():
            return _of_status(error.status_code, error.message)
    if is_lost(error):
        logger.warning("A replica was lost while it processed a request", exc_info=error)
        return _unavailable(LOST)
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, VLLM_CLIENT_ERRORS):
        return _of_status(400, str(cause))
    logger.error("A request failed", exc_info=error)
    return _of_status(500, "")


def _unavailable(code: str, param: str | None = None) -> Rejection:
    return Rejection(503, UNAVAILABLE[code], code, param, RETRY_AFTER)


def _of_status(status: int, message: str) -> Rejection:
    if status >= 500:
        return Rejection(status, "The server failed to process the request", "server_error")
    return Rejection(status, message, "not_found" if status == 404 else "invalid_request")


def _validation(error: RequestValidationError) -> Rejection:
    first = error.errors()[0]
    places = [str(place) for place in first["loc"] if place != "body"]
    path = ".".join(places)
    return Rejection(400, f"{path or 'body'}: {first['msg']}", "invalid_value", path or None)


async def _answer(_: Request, error: Exception) -> Response:
    return _response(rejection(error))


def _response(reason: Rejection) -> Response:
    headers = {name.decode(): value.decode() for name, value in reason.headers}
    return Response(error_body(reason), reason.status, headers, media_type="application/json")

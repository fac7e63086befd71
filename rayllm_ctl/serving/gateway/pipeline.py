"""The steps of a request: key, path, headers, body, model, fields, queue, tokens, limits, application."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from rayllm_ctl.serving.gateway.application import App, call
from rayllm_ctl.serving.gateway.body import docs_page, json_body, multipart, openapi, prompts
from rayllm_ctl.serving.gateway.body.cleaning import Cleaner
from rayllm_ctl.serving.gateway.body.endpoints import ENDPOINTS, MODEL, MODELS, NAME, Endpoint, check_body
from rayllm_ctl.serving.gateway.body.engines import of_engine
from rayllm_ctl.serving.gateway.errors import Rejected, invalid
from rayllm_ctl.serving.gateway.exchange import Exchange, json_reply
from rayllm_ctl.serving.gateway.http import cors
from rayllm_ctl.serving.gateway.requests import (
    check_headers,
    is_json,
    only,
    read_body,
)
from rayllm_ctl.serving.gateway.response import Forwarder
from rayllm_ctl.serving.gateway.settings import Bounds, Model
from rayllm_ctl.serving.gateway.steps import ANONYMOUS, Rejection

DOCS = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/-/routes"})
_ONE_MODEL = "/v1/models/"


async def handle(exchange: Exchange, app: App) -> None:
    """Answer a request. Raises Rejected and Disconnected."""
    path, settings = exchange.path, exchange.state.settings
    if path == "/health":
        await _health(exchange)
    elif path in DOCS:
        await _docs(exchange, app)
    elif settings.cors and cors.is_preflight(exchange.method, exchange.headers):
        await exchange.reply(204, b"", cors.preflight_headers(exchange.headers))
    else:
        _authenticate(exchange)
        if path == "/queue":
            await _queue(exchange)
        elif endpoint := ENDPOINTS.get(path):
            exchange.route = path
            _check_method(exchange, endpoint.method)
            await _known(exchange, app, endpoint)
        elif path.startswith(_ONE_MODEL):
            exchange.route = MODEL.path
            _check_method(exchange, MODEL.method)
            name = path[len(_ONE_MODEL) :]
            # Ray Serve LLM accepts "--" for the slash of an id.
            _permit(exchange, name if name in exchange.state.models else name.replace("--", "/"))
            await _pass(exchange, app)
        elif exchange.method in ("GET", "HEAD", "OPTIONS"):
            _permit_all(exchange, _of_query(exchange))
            await _pass(exchange, app)
        else:
            await _other(exchange, app)


async def _known(exchange: Exchange, app: App, endpoint: Endpoint) -> None:
    if endpoint is MODELS:
        await _pass(exchange, app, filter_models=exchange.client is not None and exchange.client.models is not None)
    elif endpoint.multipart:
        await _form(exchange, app)
    else:
        await _json(exchange, app, endpoint)


async def _health(exchange: Exchange) -> None:
    exchange.route = "/health"
    exchange.client, exchange.limit_headers = ANONYMOUS, ()
    _check_method(exchange, "GET")
    await exchange.reply(200, b'{"status":"ok"}')


async def _docs(exchange: Exchange, app: App) -> None:
    exchange.route = exchange.path
    state = exchange.state
    if not state.settings.docs:
        raise Rejected(Rejection(404, "The path does not exist", "not_found"))
    _check_method(exchange, "GET")
    document = openapi.document(
        state.settings.validation, state.keys is not None, {model.engine for model in state.models.values()}
    )
    if exchange.path == "/openapi.json":
        await exchange.reply(200, json_reply(document))
    elif exchange.path == "/docs":
        await exchange.reply(200, docs_page.page(document), content_type=b"text/html; charset=utf-8")
    else:
        await call(exchange, app, b"", Forwarder(exchange))


async def _queue(exchange: Exchange) -> None:
    exchange.route = "/queue"
    _check_method(exchange, "GET")
    queue = exchange.state.queue
    if queue is None:
        raise Rejected(Rejection(404, "The path does not exist", "not_found"))
    await exchange.know_standing()
    figures = await queue.figures()
    value = {
        "pending": figures.pending,
        "running": figures.running,
        "replicas": figures.replicas,
        "maxPending": figures.max_pending,
        "estimatedWaitSeconds": figures.estimated_wait_seconds,
    }
    await exchange.reply(200, json_reply(value))


def _authenticate(exchange: Exchange) -> None:
    keys = exchange.state.keys
    if keys is None:
        return
    client = keys.authenticate(exchange.headers)
    if isinstance(client, Rejection):
        raise Rejected(client)
    exchange.client = client


def _check_method(exchange: Exchange, method: str) -> None:
    if exchange.method != method:
        headers = ((b"allow", method.encode()),)
        message = "The method is not allowed for this path"
        raise Rejected(Rejection(405, message, "method_not_allowed", headers=headers))


def _permit(exchange: Exchange, name: str) -> Model:
    """The model of this id, if it exists and the key may use it."""
    model = exchange.state.models.get(name)
    if model is None:
        raise Rejected(Rejection(404, "The model does not exist", "model_not_found", "model"))
    exchange.model = name
    permitted = exchange.client.models if exchange.client else None
    if permitted is not None and name not in permitted:
        raise Rejected(Rejection(403, "The key may not use this model", "model_not_allowed", "model"))
    return model


def _model(exchange: Exchange, name: Any) -> Model:
    """The model that a body names; the only one if it names none."""
    if name is None:
        served = {model.id for model in exchange.state.models.values()}
        if len(served) != 1:
            raise invalid("model: required", "model", code="missing_required_parameter")
        return _permit(exchange, served.pop())
    NAME.check(name, "model")
    return _permit(exchange, name)


async def _pass(exchange: Exchange, app: App, *, filter_models: bool = False) -> None:
    await exchange.know_standing()
    await call(exchange, app, b"", Forwarder(exchange, filter_models=filter_models))


async def _json(exchange: Exchange, app: App, endpoint: Endpoint) -> None:
    settings = exchange.state.settings.validation
    check_headers(exchange.headers, settings)
    if not is_json(exchange.headers):
        raise Rejected(Rejection(415, "The content type must be application/json", "unsupported_type"))
    if only(exchange.headers, b"content-type") is None:
        # What is read as JSON here is to be read as JSON behind; FastAPI does so only if it is declared.
        exchange.headers = [*exchange.headers, (b"content-type", b"application/json")]
    body = await read_body(exchange.receive, settings)
    exchange.reads = len(body)
    value = json_body.parse(body, settings.max_depth)
    if not isinstance(value, dict):
        raise invalid("The body must be an object", code="invalid_type")
    model = _model(exchange, value.get("model"))
    endpoint = of_engine(endpoint, model.engine)
    check_body(endpoint, value)
    changed = _clean(exchange, endpoint, value)
    if json_body.has_escaped_surrogates(body):
        json_body.reject_surrogates(value)
    prompts.check_limits(endpoint, value, settings)
    output = prompts.output_limit(endpoint, value, settings)
    await _enter_queue(exchange, model)
    added: dict[str, Any] = {}
    if value.get("model") is None:
        added["model"] = model.id
    room = await _count(exchange, endpoint, value, model, output is not None and output.added)
    if output is not None:
        added[output.field] = min(output.tokens, room) if room is not None and output.added else output.tokens
    drop_usage = _ask_for_usage(exchange, endpoint, value, added)
    await _admit(exchange)
    await call(exchange, app, _edited(body, value, added, changed), Forwarder(exchange, drop_usage=drop_usage))


def _clean(exchange: Exchange, endpoint: Endpoint, value: dict[str, Any]) -> bool:
    """Clean the prompt in place; whether that changed it."""
    cleaning, removal = exchange.state.settings.cleaning, exchange.state.removal
    if cleaning is None or removal is None or not endpoint.prompts:
        return False
    cleaner = Cleaner(removal, cleaning.normalization)
    prompts.rewrite(endpoint, value, cleaner.clean)
    exchange.cleaned = cleaner.header()
    return bool(cleaner.removed)


async def _enter_queue(exchange: Exchange, model: Model) -> None:
    if exchange.state.queue is None:
        return
    slot = await exchange.state.queue.enter(model.id)
    if isinstance(slot, Rejection):
        raise Rejected(slot)
    exchange.slot = slot


async def _count(
    exchange: Exchange, endpoint: Endpoint, value: dict[str, Any], model: Model, sets_output: bool
) -> int | None:
    """Count the tokens of the prompt where something depends on it; the room they leave in the context, if known."""
    state = exchange.state
    wanted = state.bounds_tokens() or state.limits_tokens(exchange.client or ANONYMOUS)
    if not endpoint.prompts or model.tokenizer is None or not (wanted or (sets_output and model.max_model_len)):
        return None
    counts = await state.tokenizers.count(model.tokenizer, endpoint, value, exchange.reads)
    exchange.prompt_tokens = sum(counts)
    bounds, param = state.settings.validation.prompt_tokens, prompts.prompt_field(endpoint, value)
    context = model.max_model_len
    for count in counts:
        prompts.check_size(count, bounds, param, "tokens")
        if context is not None and endpoint.output and value.get("truncate_prompt_tokens") is None:
            prompts.check_size(count, Bounds(max=context - 1), param, "tokens")
    return None if context is None else max(context - max(counts, default=0), 1)


def _ask_for_usage(exchange: Exchange, endpoint: Endpoint, value: dict[str, Any], added: dict[str, Any]) -> bool:
    """Where tokens are limited ask the engine for the usage at the end of a stream; whether the client did not."""
    if not endpoint.output or not value.get("stream") or not exchange.state.limits_tokens(exchange.client or ANONYMOUS):
        return False
    if (value.get("stream_options") or {}).get("include_usage"):
        return False
    added["stream_options"] = {"include_usage": True}
    return True


def _edited(body: bytes, value: dict[str, Any], added: dict[str, Any], changed: bool) -> bytes:
    """The body for the application: the client's own bytes unless something had to change."""
    if not added and not changed:
        return body
    if changed or not value or any(name in value for name in added):
        return json_body.encode({**value, **added})
    place = body.index(b"{") + 1
    return b"%b%b,%b" % (body[:place], json_body.encode(added)[1:-1], body[place:])


async def _form(exchange: Exchange, app: App) -> None:
    settings = exchange.state.settings.validation
    check_headers(exchange.headers, settings)
    declared = only(exchange.headers, b"content-type") or b""
    if not declared.lower().startswith(b"multipart/form-data"):
        raise Rejected(Rejection(415, "The content type must be multipart/form-data", "unsupported_type"))
    body = await read_body(exchange.receive, settings)
    exchange.reads = len(body)
    fields = await multipart.parse(declared, body)
    model = _model(exchange, fields.get("model"))
    prompts.check_limits(multipart.ENDPOINT, fields, settings)
    await _enter_queue(exchange, model)
    await _admit(exchange)
    await call(exchange, app, body, Forwarder(exchange))


async def _other(exchange: Exchange, app: App) -> None:
    """A path that only the application knows: it decides what is valid, but is not a way around the models of a key."""
    settings = exchange.state.settings.validation
    check_headers(exchange.headers, settings)
    body = await read_body(exchange.receive, settings)
    exchange.reads = len(body)
    if exchange.client is not None and exchange.client.models is not None:
        try:
            value = json_body.parse(body, settings.max_depth) if is_json(exchange.headers) else None
        except Rejected:
            value = None
        if not isinstance(value, dict) or not isinstance(value.get("model"), str):
            raise Rejected(Rejection(403, "The key may use this path with a model only", "model_not_allowed", "model"))
        _permit_all(exchange, [*_of_query(exchange), value["model"]])
    await _admit(exchange)
    await call(exchange, app, body, Forwarder(exchange))


def _of_query(exchange: Exchange) -> list[str]:
    """The models that the query names, from which an application that is not known may take its own."""
    return list(QueryParams(exchange.scope.get("query_string", b"")).getlist("model"))


def _permit_all(exchange: Exchange, names: list[str]) -> None:
    """Let a key for some models pass if they are one model, and one of those."""
    if exchange.client is None or exchange.client.models is None or not names:
        return
    if len(set(names)) > 1:
        raise invalid("The request names more than one model", "model", "duplicate_key")
    _permit(exchange, names[0])


async def _admit(exchange: Exchange) -> None:
    limits = exchange.state.limits
    if limits is None:
        return
    client = exchange.client or ANONYMOUS
    admission = await limits.admit(client, exchange.address, exchange.model, exchange.prompt_tokens or 0)
    exchange.admission, exchange.limit_headers = admission, admission.headers
    if admission.rejection is not None:
        raise Rejected(admission.rejection)

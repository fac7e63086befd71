"""The OpenAPI document of what the gateway accepts, made from the same tables that check requests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rayllm_ctl.serving.gateway.body.endpoints import ENDPOINTS, MODEL, Endpoint
from rayllm_ctl.serving.gateway.body.engines import of_engine
from rayllm_ctl.serving.gateway.body.multipart import ENDPOINT as FORM
from rayllm_ctl.serving.gateway.settings import EngineKind, Validation

_ERRORS = {
    "400": "Invalid input; `param` names the field",
    "401": "No valid key",
    "403": "The key may not use the model",
    "404": "Unknown path or model",
    "405": "The path has another method",
    "408": "The body arrived too slowly",
    "413": "The body is too large",
    "415": "The body is encoded or has another type",
    "429": "A limit is reached; Retry-After says when to try again",
    "500": "The server failed; its log has the cause under the request id",
    "503": "Too many requests wait; Retry-After says when to try again",
}

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}

_QUEUE = {
    "type": "object",
    "required": ["pending", "running", "replicas", "maxPending", "estimatedWaitSeconds"],
    "properties": {
        "pending": {"type": "integer"},
        "running": {"type": "integer"},
        "replicas": {"type": "integer"},
        "maxPending": {"type": ["integer", "null"]},
        "estimatedWaitSeconds": {"type": ["number", "null"]},
    },
}


def document(settings: Validation, keys: bool, engines: Collection[EngineKind] = ()) -> dict[str, Any]:
    """The document for these settings, with the fields of all `engines`; with keys every path but /health needs one."""
    paths: dict[str, Any] = {
        "/health": {"get": _operation("Whether the gateway answers", keyed=False, errors=("405",))},
        "/queue": {"get": _operation("Requests that wait and run", keyed=keys, schema=_QUEUE, errors=("401", "405"))},
    }
    for general in (*ENDPOINTS.values(), MODEL):
        # What only vLLM knows is checked for all: the other engine rejects it by name.
        endpoint = of_engine(general, "transformers" if "transformers" in engines else "vllm")
        errors = tuple(_ERRORS) if endpoint.method == "POST" else ("401", "403", "404", "405", "500", "503")
        operation = _operation(endpoint.summary, keyed=keys, errors=errors)
        if endpoint.method == "POST":
            operation["requestBody"] = {"required": True, "content": _content(endpoint)}
        if general is MODEL:
            operation["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths[endpoint.path] = {endpoint.method.lower(): operation}
    components: dict[str, Any] = {"schemas": {"Error": _ERROR}}
    if keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenAI-compatible API",
            "version": "1",
            "description": f"Bodies have at most {settings.max_body_bytes} bytes and {settings.max_depth} levels.",
        },
        "paths": paths,
        "components": components,
    }


def _operation(summary: str, *, keyed: bool, errors: tuple[str, ...], schema: Any = None) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "OK"}}
    if schema:
        responses["200"]["content"] = {"application/json": {"schema": schema}}
    for status in errors:
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[status] = {"description": _ERRORS[status], "content": content}
    return {"summary": summary, "responses": responses, **({"security": [{"key": []}]} if keyed else {})}


def _content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.multipart:
        properties: dict[str, Any] = {name: field.schema for name, field in FORM.fields.items()}
        schema: dict[str, Any] = {"type": "object", "required": list(FORM.required), "properties": properties}
        return {"multipart/form-data": {"schema": schema}}
    properties = {
        name: field.schema if name in endpoint.required else {"anyOf": [field.schema, {"type": "null"}]}
        for name, field in endpoint.fields.items()
    }
    schema = {"type": "object", "properties": properties}
    if endpoint.required:
        schema["required"] = list(endpoint.required)
    elif endpoint.prompts:
        given: dict[str, Any] = {"not": {"type": "null"}}
        schema["oneOf"] = [{"required": [name], "properties": {name: given}} for name in endpoint.prompts]
    return {"application/json": {"schema": schema}}

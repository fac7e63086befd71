"""Messages of a chat: what is valid, and where their text is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rayllm_ctl.serving.gateway.body.fields import Field, Schema, array, mapping, one_of, string, wrong
from rayllm_ctl.serving.gateway.errors import invalid

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

# Types of content parts that OpenAI's API and vLLM have (vllm/entrypoints/chat_utils.py 0.29); the first have text.
_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MEDIA_PARTS = {
    "image_url": "image_url",
    "input_image": "image_url",
    "image_embeds": "image_embeds",
    "audio_url": "audio_url",
    "input_audio": "input_audio",
    "audio_embeds": "audio_embeds",
    "video_url": "video_url",
    "file": "file",
}

_CALLS = array(
    mapping(
        {
            "id": string(),
            "type": one_of("function"),
            "function": mapping({"name": string(least=1), "arguments": string()}, ("name",)),
        },
        ("function",),
    )
)


def _part(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise wrong("an object", path)
    kind = value.get("type")
    if not isinstance(kind, str):
        raise wrong("a string", f"{path}.type")
    if (name := _TEXT_PARTS.get(kind)) is not None:
        if not isinstance(value.get(name), str):
            raise wrong("a string", f"{path}.{name}")
    elif (name := _MEDIA_PARTS.get(kind)) is not None:
        content = value.get(name)
        if name.endswith("_url") and isinstance(content, dict):
            content, name = content.get("url"), f"{name}.url"
            if not isinstance(content, str):
                raise wrong("a string", f"{path}.{name}")
        if not isinstance(content, str | dict):
            raise wrong("an object", f"{path}.{name}")
    else:
        known = ", ".join((*_TEXT_PARTS, *_MEDIA_PARTS))
        raise invalid(f"{path}.type: must be one of {known}", f"{path}.type")


def check_message(value: Any, path: str) -> None:
    """One message: a known role, and content that is text or a list of parts."""
    if not isinstance(value, dict):
        raise wrong("an object", path)
    role = value.get("role")
    if not isinstance(role, str):
        raise wrong("a string", f"{path}.role")
    if role not in ROLES:
        raise invalid(f"{path}.role: must be one of {', '.join(ROLES)}", f"{path}.role")
    content = value.get("content")
    if isinstance(content, list):
        if not content:
            raise invalid(f"{path}.content: must not be empty", f"{path}.content")
        for place, part in enumerate(content):
            _part(part, f"{path}.content[{place}]")
    elif content is None:
        if role != "assistant":
            raise invalid(f"{path}.content: required", f"{path}.content", code="missing_required_parameter")
    elif not isinstance(content, str):
        raise wrong("a string or an array", f"{path}.content")
    if (name := value.get("name")) is not None and not isinstance(name, str):
        raise wrong("a string", f"{path}.name")
    if (call := value.get("tool_call_id")) is not None and not isinstance(call, str):
        raise wrong("a string", f"{path}.tool_call_id")
    if (calls := value.get("tool_calls")) is not None:
        _CALLS.check(calls, f"{path}.tool_calls")


def _part_schema(kind: str, name: str, value: Schema) -> Schema:
    return {"type": "object", "required": ["type", name], "properties": {"type": {"const": kind}, name: value}}


def _message_schema(roles: tuple[str, ...], content: list[Schema], required: list[str]) -> Schema:
    return {
        "type": "object",
        "required": ["role", *required],
        "properties": {
            "role": {"type": "string", "enum": list(roles)},
            "content": {"anyOf": content},
            "name": {"type": ["string", "null"]},
            "tool_call_id": {"type": ["string", "null"]},
            "tool_calls": {"anyOf": [_CALLS.schema, {"type": "null"}]},
        },
    }


_URL: Schema = {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}
_PARTS: list[Schema] = [
    *(_part_schema(kind, name, {"type": "string"}) for kind, name in _TEXT_PARTS.items()),
    *(
        _part_schema(kind, name, {"anyOf": [{"type": "string"}, _URL if name.endswith("_url") else {"type": "object"}]})
        for kind, name in _MEDIA_PARTS.items()
    ),
]
_CONTENT: list[Schema] = [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"anyOf": _PARTS}}]
_SCHEMA: Schema = {
    "anyOf": [
        _message_schema(tuple(role for role in ROLES if role != "assistant"), _CONTENT, ["content"]),
        _message_schema(("assistant",), [*_CONTENT, {"type": "null"}], []),
    ]
}

MESSAGES = array(Field(check_message, _SCHEMA), least=1)


def rewrite(messages: list[dict[str, Any]], change: Callable[[str], str]) -> None:
    """Replace every text of the messages by what `change` makes of it, in place."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            message["content"] = change(content)
        elif content:
            for part in content:
                if (name := _TEXT_PARTS.get(part["type"])) is not None:
                    part[name] = change(part[name])
        for call in message.get("tool_calls") or ():
            if call["function"].get("arguments"):
                call["function"]["arguments"] = change(call["function"]["arguments"])


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """Every text of the messages: their content, and the arguments of tool calls."""
    found: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            found.append(content)
        elif content:
            found += [part[name] for part in content if (name := _TEXT_PARTS.get(part["type"])) is not None]
        found += [call["function"].get("arguments") or "" for call in message.get("tool_calls") or ()]
    return found


def for_template(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages as vLLM gives them to a chat template that expects text: parts joined, arguments of tool calls parsed.

    Images and other media have no text: their tokens are known to the engine alone.
    """
    plain: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            parts = [part[name] for part in content if (name := _TEXT_PARTS.get(part["type"])) is not None]
            message = {**message, "content": "\n".join(parts)}
        if message.get("tool_calls"):
            message = {**message, "tool_calls": [_parsed(call) for call in message["tool_calls"]]}
        plain.append(message)
    return plain


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(call["function"].get("arguments") or "{}")
    except ValueError:
        return call
    return {**call, "function": {**call["function"], "arguments": arguments}}

"""OpenAI batch files: from the body of a line to what the engine is asked, and from an answer to a line of output."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rayllm_ctl.serving.batch.inference.adapters import is_name
from rayllm_ctl.serving.batch.parts import Answer, Ask, RowError
from rayllm_ctl.serving.batch.settings import Settings

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
_TASKS = {CHAT: "generate", COMPLETIONS: "generate", EMBEDDINGS: "embed"}

_SAMPLING = frozenset(
    [
        "allowed_token_ids",
        "bad_words",
        "frequency_penalty",
        "ignore_eos",
        "include_stop_str_in_output",
        "length_penalty",
        "max_tokens",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop",
        "stop_token_ids",
        "temperature",
        "top_k",
        "top_p",
        "structured_outputs",
    ]
)
_NOT_THE_ANSWER = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
"""Fields for OpenAI's own bookkeeping."""
_COMPLETIONS_TOKENS = 16
"""The default of max_tokens of this endpoint, by OpenAI's API reference."""


def ask(row: dict[str, Any], settings: Settings, defaults: dict[str, Any]) -> Ask:
    """The Ask of a line, whose parameters go over the job's. RowError if it asks for what a batch job cannot do."""
    url, body = row.get("url", CHAT), dict(row["body"])
    if _TASKS.get(url) != settings.task:
        raise RowError(f"url {url!r} is not possible in a job with the task {settings.task}")
    model = _model(body.pop("model", None), settings)
    if url == CHAT:
        prompt, messages = None, body.pop("messages", None)
        if not isinstance(messages, list) or not messages:
            raise RowError("body.messages is empty")
        if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
            raise RowError("body.messages has an item without a role")
        kwargs = {**settings.prompt.chatTemplateKwargs, **(body.pop("chat_template_kwargs", None) or {})}
        chat = json.dumps({"messages": messages, "kwargs": kwargs})
    else:
        prompt, chat = body.pop("prompt" if url == COMPLETIONS else "input", None), None
        if not isinstance(prompt, str) or not prompt.strip():
            raise RowError("the prompt is empty or not one text")
    if url == COMPLETIONS and defaults.get("max_tokens") is None:
        defaults = {**defaults, "max_tokens": _COMPLETIONS_TOKENS}
    parameters = {**defaults, **_parameters(body, settings)}
    return Ask(prompt, chat, json.dumps(parameters), model)


def _model(name: Any, settings: Settings) -> str:
    """The engine's name of a line's model: the job's, or that of a LoRA adapter."""
    engine = settings.engine
    if name in (engine.model, engine.modelId):
        return engine.model
    if isinstance(name, str) and engine.loraPath is not None and is_name(name):
        return name
    raise RowError(f"body.model is {name!r}, and the job runs {engine.modelId or engine.model}")


def _parameters(body: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The sampling parameters of a body."""
    own = {name: value for name, value in body.items() if value is not None and name not in _NOT_THE_ANSWER}
    if (limit := own.pop("max_completion_tokens", None)) is not None:
        own["max_tokens"] = limit
    wanted = own.pop("response_format", None)
    if wanted is not None:
        own["structured_outputs"] = _structured(wanted)
    if own.get("n") == 1:
        del own["n"]
    for name in ("stream", "logprobs", "echo"):
        if own.get(name) is False:
            del own[name]
    allowed = _SAMPLING if settings.task == "generate" else frozenset({"dimensions", "encoding_format"})
    if unknown := sorted(set(own) - allowed):
        raise RowError(f"body.{unknown[0]} is not supported in a batch job")
    if own.pop("encoding_format", "float") != "float":
        raise RowError("body.encoding_format has to be float")
    return own


def _structured(wanted: Any) -> dict[str, Any] | None:
    match wanted:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"json_object": True}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return {"json": schema}
    raise RowError("body.response_format is none of text, json_object and json_schema")


def answer_line(values: dict[str, Any], row_id: str, answer: Answer, created: int, task: str) -> dict[str, Any]:
    """A line of OpenAI batch output. Its ids follow from the row, so that a part done twice is the same."""
    digest = hashlib.sha256(row_id.encode()).hexdigest()[:24]
    line: dict[str, Any] = {"id": f"batch_req_{digest}", "custom_id": values.get("custom_id", row_id)}
    if answer.error is not None:
        return {**line, "response": None, "error": {"code": "row_failed", "message": answer.error}}
    body = _body(values, answer, digest, created, task)
    return {**line, "response": {"status_code": 200, "request_id": f"req_{digest}", "body": body}, "error": None}


def _body(values: dict[str, Any], answer: Answer, digest: str, created: int, task: str) -> dict[str, Any]:
    model = values["body"].get("model")
    prompt_tokens, completion_tokens = answer.prompt_tokens or 0, answer.completion_tokens or 0
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + completion_tokens}
    if task == "embed":
        data = [{"object": "embedding", "index": 0, "embedding": answer.answer}]
        return {"object": "list", "data": data, "model": model, "usage": usage}
    chat = values.get("url", CHAT) == CHAT
    content = (
        {"message": {"role": "assistant", "content": answer.answer, "refusal": None}}
        if chat
        else {"text": answer.answer}
    )
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{digest}",
        "object": "chat.completion" if chat else "text_completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, **content, "logprobs": None, "finish_reason": answer.finish_reason}],
        "usage": {**usage, "completion_tokens": completion_tokens},
    }

"""The endpoints of the API, and the fields of their requests.

Ranges are those that vLLM 0.29 accepts (sampling_params.py, entrypoints/openai/*/protocol.py), or those of OpenAI's API
where they are narrower and vLLM has none. Fields that are not listed are left to the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rayllm_ctl.serving.gateway.body.fields import (
    Field,
    Schema,
    array,
    boolean,
    check_fields,
    either,
    integer,
    mapping,
    number,
    one_of,
    string,
    wrong,
)
from rayllm_ctl.serving.gateway.body.messages import MESSAGES
from rayllm_ctl.serving.gateway.errors import invalid


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint: `fields` of its JSON body, and where its prompt is."""

    path: str
    method: Literal["GET", "POST"]
    summary: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    """Fields that hold text for the model; exactly one of them is required unless `required` says otherwise."""
    output: tuple[str, ...] = ()
    """Fields with the most tokens of an answer; the first that is given takes precedence."""
    multipart: bool = False


def _logit_bias(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise wrong("an object", path)
    for token, bias in value.items():
        if not (token.isascii() and token.isdigit() and len(token) < 12):
            raise invalid(f"{path}: keys must be ids of tokens", path)
        if isinstance(bias, bool) or not isinstance(bias, int | float):
            raise wrong("an object of numbers", path)
        if not -100 <= bias <= 100:
            raise invalid(f"{path}: values must be between -100 and 100", path)


_BIASES: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[0-9]{1,11}$"},
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
}


def _tool_choice(value: Any, path: str) -> None:
    if isinstance(value, str):
        if value not in ("none", "auto", "required"):
            raise invalid(f"{path}: must be none, auto, required or a function", path)
    else:
        _NAMED_TOOL.check(value, path)


_NAMED_TOOL = mapping(
    {"type": one_of("function"), "function": mapping({"name": string(least=1)}, ("name",))}, ("type", "function")
)
_TOOLS = array(
    mapping(
        {
            "type": one_of("function"),
            "function": mapping(
                {"name": string(256, least=1), "description": string(), "parameters": mapping(), "strict": boolean()},
                ("name",),
            ),
        },
        ("type", "function"),
    )
)
_RESPONSE_FORMAT = mapping(
    {
        "type": one_of("text", "json_object", "json_schema", "structural_tag"),
        "json_schema": mapping({"name": string(least=1), "schema": mapping(), "strict": boolean()}, ("name",)),
    },
    ("type",),
)
_TEXT = string()
_TEXTS = array(_TEXT, least=1)
_IDS = array(integer(0, sampling=False), least=1)


def _tokens_or_texts(value: Any, path: str) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise wrong("a string or an array", path)
    if not value:
        raise invalid(f"{path}: must not be empty", path)
    kinds = {str: _TEXTS, int: _IDS, list: array(_IDS)}
    kind = kinds.get(type(value[0]))
    if kind is None:
        raise wrong("an array of strings or of token ids", path)
    kind.check(value, path)


_PROMPT = Field(_tokens_or_texts, {"anyOf": [_TEXT.schema, _TEXTS.schema, _IDS.schema, array(_IDS, least=1).schema]})
_TEXT_OR_TEXTS = either("a string or an array of strings", (str, _TEXT), (list, _TEXTS))

NAME = string(512, least=1)
_MODEL: dict[str, Field] = {"model": NAME, "user": string(512)}

_TEMPLATE: dict[str, Field] = {
    "add_generation_prompt": boolean(),
    "continue_final_message": boolean(),
    "add_special_tokens": boolean(),
    "chat_template": string(),
    "chat_template_kwargs": mapping(),
    "tools": _TOOLS,
}

# Options of sampling that chat and completions share.
_SAMPLING: dict[str, Field] = {
    "temperature": number(0, 2),
    "top_p": number(most=1, above=0),
    "top_k": integer(-1),
    "min_p": number(0, 1),
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "repetition_penalty": number(above=0),
    "length_penalty": number(),
    "seed": integer(),
    "n": integer(1, 128),
    "logit_bias": Field(_logit_bias, _BIASES, sampling=True),
    "prompt_logprobs": integer(-1),
    "min_tokens": integer(0),
    "stop_token_ids": array(integer(0), sampling=True),
    "allowed_token_ids": array(integer(0), least=1, sampling=True),
    "bad_words": array(string(least=1), sampling=True),
    "ignore_eos": boolean(sampling=True),
    "use_beam_search": boolean(sampling=True),
    "include_stop_str_in_output": boolean(sampling=True),
    "skip_special_tokens": boolean(sampling=True),
    "spaces_between_special_tokens": boolean(sampling=True),
    "truncate_prompt_tokens": integer(-1),
    "stream_interval": integer(1),
}

_GENERATION: dict[str, Field] = {
    **_MODEL,
    **_SAMPLING,
    "max_tokens": integer(1, sampling=False),
    "stop": either("a string or an array of strings", (str, string(least=1)), (list, array(string(least=1)))),
    "stream": boolean(),
    "stream_options": mapping({"include_usage": boolean(), "continuous_usage_stats": boolean()}),
    "response_format": _RESPONSE_FORMAT,
    "structured_outputs": mapping(),
    "priority": integer(sampling=False),
    "request_id": string(128, least=1),
    "cache_salt": string(1024, least=1),
}

CHAT = Endpoint(
    "/v1/chat/completions",
    "POST",
    "An answer to the messages of a chat",
    fields={
        **_GENERATION,
        **_TEMPLATE,
        "messages": MESSAGES,
        "max_completion_tokens": integer(1, sampling=False),
        "logprobs": boolean(sampling=True),
        "top_logprobs": integer(-1),
        "tool_choice": Field(_tool_choice, {"anyOf": [one_of("none", "auto", "required").schema, _NAMED_TOOL.schema]}),
        "parallel_tool_calls": boolean(),
        "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh", "max", sampling=True),
        "echo": boolean(),
    },
    required=("messages",),
    prompts=("messages",),
    output=("max_completion_tokens", "max_tokens"),
)

COMPLETIONS = Endpoint(
    "/v1/completions",
    "POST",
    "A continuation of a prompt",
    fields={
        **_GENERATION,
        "prompt": _PROMPT,
        "logprobs": integer(-1),
        "suffix": string(),
        "echo": boolean(),
        "best_of": integer(1, 128),
        "add_special_tokens": boolean(),
    },
    required=("prompt",),
    prompts=("prompt",),
    output=("max_tokens",),
)

EMBEDDINGS = Endpoint(
    "/v1/embeddings",
    "POST",
    "A vector for each text",
    fields={
        **_MODEL,
        **_TEMPLATE,
        "input": _PROMPT,
        "messages": MESSAGES,
        "encoding_format": one_of("float", "base64", "bytes", "bytes_only"),
        "dimensions": integer(1, sampling=False),
        "truncate_prompt_tokens": integer(-1, sampling=False),
    },
    prompts=("input", "messages"),
)

SCORE = Endpoint(
    "/v1/score",
    "POST",
    "How well two texts go together",
    fields={
        **_MODEL,
        "text_1": _TEXT_OR_TEXTS,
        "text_2": _TEXT_OR_TEXTS,
        "truncate_prompt_tokens": integer(-1, sampling=False),
    },
    required=("text_1", "text_2"),
    prompts=("text_1", "text_2"),
)

TOKENIZE = Endpoint(
    "/tokenize",
    "POST",
    "The tokens of a text or of the messages of a chat",
    fields={**_MODEL, **_TEMPLATE, "prompt": _TEXT, "messages": MESSAGES, "return_token_strs": boolean()},
    prompts=("prompt", "messages"),
)

DETOKENIZE = Endpoint(
    "/detokenize",
    "POST",
    "The text of tokens",
    fields={**_MODEL, "tokens": array(integer(0, sampling=False))},
    required=("tokens",),
)

TRANSCRIPTIONS = Endpoint("/v1/audio/transcriptions", "POST", "The text of an audio file", multipart=True)
MODELS = Endpoint("/v1/models", "GET", "The models that the key may use")
MODEL = Endpoint("/v1/models/{id}", "GET", "One model")
ENDPOINTS = {
    endpoint.path: endpoint
    for endpoint in (CHAT, COMPLETIONS, EMBEDDINGS, SCORE, TOKENIZE, DETOKENIZE, TRANSCRIPTIONS, MODELS)
}


def check_body(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Check the fields of a body, except for the limits of the settings. Raises Rejected."""
    check_fields(body, endpoint.fields, endpoint.required)
    if endpoint.prompts and not endpoint.required:
        given = [name for name in endpoint.prompts if body.get(name) is not None]
        if len(given) != 1:
            names = " or ".join(endpoint.prompts)
            param = given[1] if given else endpoint.prompts[0]
            raise invalid(f"{names}: exactly one is required", param, code="missing_required_parameter")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise invalid("stream_options: requires stream", "stream_options")

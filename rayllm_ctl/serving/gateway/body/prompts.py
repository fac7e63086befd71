"""The texts of a prompt, wherever an endpoint has them, and the limits that the settings put on requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rayllm_ctl.serving.gateway.body import messages
from rayllm_ctl.serving.gateway.body.endpoints import Endpoint
from rayllm_ctl.serving.gateway.errors import invalid
from rayllm_ctl.serving.gateway.settings import Bounds, Validation


def rewrite(endpoint: Endpoint, body: dict[str, Any], change: Callable[[str], str]) -> None:
    """Replace every text of the prompt by what `change` makes of it, in place."""
    for name in endpoint.prompts:
        value = body.get(name)
        if name == "messages":
            messages.rewrite(value or [], change)
        elif isinstance(value, str):
            body[name] = change(value)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            body[name] = [change(item) for item in value]


def sequences(endpoint: Endpoint, body: dict[str, Any]) -> list[list[str]]:
    """The texts of each sequence that the model gets: of all messages together, of each prompt; token ids have none."""
    found: list[list[str]] = []
    for name in endpoint.prompts:
        value = body.get(name)
        if name == "messages":
            if value:
                found.append(messages.texts(value))
        elif isinstance(value, str):
            found.append([value])
        elif isinstance(value, list) and isinstance(value[0], str):
            found += [[item] for item in value]
    return found


def prompt_field(endpoint: Endpoint, body: dict[str, Any]) -> str:
    """The name of the field that an error about the prompt names."""
    return next((name for name in endpoint.prompts if body.get(name) is not None), "prompt")


def check_limits(endpoint: Endpoint, body: dict[str, Any], settings: Validation) -> None:
    """The limits of the settings, except for tokens. Raises Rejected."""
    chat = body.get("messages") if "messages" in endpoint.fields else None
    if chat is not None and len(chat) > settings.max_messages:
        raise invalid(f"messages: must have at most {settings.max_messages} items", "messages", "too_many_messages")
    if settings.parameters is not None:
        _check_parameters(endpoint, body, settings.parameters)
    if "stop" in endpoint.fields and body.get("stop") is not None:
        _check_stop(body["stop"], settings)
    if endpoint.prompts and settings.prompt_characters != Bounds():
        param = prompt_field(endpoint, body)
        for texts in sequences(endpoint, body):
            check_size(sum(map(len, texts)), settings.prompt_characters, param, "characters")


def check_size(size: int, bounds: Bounds, param: str, unit: str) -> None:
    """Whether a prompt is neither too short nor too long."""
    if bounds.max is not None and size > bounds.max:
        raise invalid(f"{param}: has {size} {unit}, more than {bounds.max}", param, "prompt_too_long")
    if bounds.min is not None and size < bounds.min:
        raise invalid(f"{param}: has {size} {unit}, less than {bounds.min}", param, "prompt_too_short")


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """A field to set so that an answer has at most as many tokens as permitted."""

    field: str
    tokens: int
    added: bool
    """The request does not have the field."""


def output_limit(endpoint: Endpoint, body: dict[str, Any], settings: Validation) -> OutputLimit | None:
    """What to change for the limit of output tokens. Raises Rejected."""
    limit = settings.output_tokens.max
    if limit is None or not endpoint.output:
        return None
    least = body.get("min_tokens")
    if least is not None and least > limit:
        raise invalid(f"min_tokens: {least} is more than {limit}", "min_tokens", "too_many_output_tokens")
    name = next((name for name in endpoint.output if body.get(name) is not None), None)
    if name is None:
        # Without the field vLLM completes a prompt by 16 tokens, and fills the context in a chat.
        return None if endpoint.output == ("max_tokens",) and limit >= 16 else OutputLimit("max_tokens", limit, True)
    if body[name] <= limit:
        return None
    if settings.output_tokens.exceeding == "reject":
        raise invalid(f"{name}: {body[name]} is more than {limit}", name, "too_many_output_tokens")
    return OutputLimit(name, limit, False)


def _check_parameters(endpoint: Endpoint, body: dict[str, Any], allowed: frozenset[str]) -> None:
    for name, value in body.items():
        field = endpoint.fields.get(name)
        if value is not None and (field is None or field.sampling) and name not in allowed:
            raise invalid("The parameter is not allowed here", name, "parameter_not_allowed")


def _check_stop(stop: str | list[str], settings: Validation) -> None:
    sequences = [stop] if isinstance(stop, str) else stop
    limits = settings.stop_sequences
    if len(sequences) > limits.max:
        raise invalid(f"stop: must have at most {limits.max} sequences", "stop", "too_many_stop_sequences")
    for place, sequence in enumerate(sequences):
        if len(sequence) > limits.max_length:
            param = "stop" if isinstance(stop, str) else f"stop[{place}]"
            raise invalid(f"{param}: must have at most {limits.max_length} characters", param, "stop_too_long")

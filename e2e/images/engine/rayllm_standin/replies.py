"""Made-up answers in the forms of OpenAI's API, as plain dictionaries.

Standard library only, since the simulated pods answer with them too. A token is a word with the space before it, in
answers as in prompts.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DONE = "data: [DONE]\n\n"

# What vLLM allows a completion without `max_tokens` (OpenAI's default for this endpoint).
COMPLETION_DEFAULT_TOKENS = 16

_SENTENCE = (
    "This answer was made without a model: the request was routed, scheduled and streamed as a real one would be, "
    "and only the arithmetic is missing. Replace the image by one with a GPU build of vLLM to hear {model} itself."
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What of a request decides the form of its answer. `limit` is the most tokens (None: to the natural end)."""

    model: str
    prompt: str
    limit: int | None = None
    endless: bool = False
    stream_usage: bool = False

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt.split())


def chat_ask(request: dict[str, Any]) -> Ask:
    """The Ask of a body of POST /v1/chat/completions."""
    limit = request.get("max_completion_tokens")
    return _ask(request, _texts(request.get("messages")), request.get("max_tokens") if limit is None else limit)


def completion_ask(request: dict[str, Any]) -> Ask:
    """The Ask of a body of POST /v1/completions."""
    limit = request.get("max_tokens")
    return _ask(request, _texts(request.get("prompt")), COMPLETION_DEFAULT_TOKENS if limit is None else limit)


def tokens(ask: Ask) -> Iterator[str]:
    """The answer's tokens. With `endless` (vLLM's ignore_eos) the sentence repeats until the limit."""
    words = _SENTENCE.format(model=ask.model).split(" ")
    source = itertools.cycle(words) if ask.endless and ask.limit is not None else iter(words)
    for position, word in enumerate(itertools.islice(source, ask.limit)):
        yield word if position == 0 else " " + word


def finish_reason(ask: Ask, produced: int) -> str:
    """`length` where the limit cut the answer, else `stop`."""
    return "length" if ask.limit is not None and produced >= ask.limit else "stop"


def usage(ask: Ask, produced: int) -> dict[str, int]:
    """OpenAI's usage object."""
    total = ask.prompt_tokens + produced
    return {"prompt_tokens": ask.prompt_tokens, "completion_tokens": produced, "total_tokens": total}


def chat_response(ask: Ask, words: list[str]) -> dict[str, Any]:
    """The whole answer of the chat endpoint."""
    message = {"role": "assistant", "content": "".join(words)}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(ask, len(words))}
    return {**_head("chat.completion", ask), "choices": [choice], "usage": usage(ask, len(words))}


def completion_response(ask: Ask, words: list[str]) -> dict[str, Any]:
    """The whole answer of the completions endpoint."""
    choice = {"index": 0, "text": "".join(words), "logprobs": None, "finish_reason": finish_reason(ask, len(words))}
    return {**_head("text_completion", ask), "choices": [choice], "usage": usage(ask, len(words))}


class Stream:
    """The server-sent events of one streamed answer: `opening`, an `event` for each token, then `closing`."""

    def __init__(self, ask: Ask, *, chat: bool) -> None:
        self._ask = ask
        self._chat = chat
        self._head = _head("chat.completion.chunk" if chat else "text_completion", ask)
        self._produced = 0

    def opening(self) -> list[str]:
        """The events before the first token: chat names the role."""
        return [self._event({"delta": {"role": "assistant", "content": ""}})] if self._chat else []

    def event(self, word: str) -> str:
        """The event of one token."""
        self._produced += 1
        return self._event({"delta": {"content": word}} if self._chat else {"text": word})

    def closing(self) -> list[str]:
        """The events after the last token: why it ended, the usage if asked for, and the end mark."""
        reason = finish_reason(self._ask, self._produced)
        events = [self._event({"delta": {}} if self._chat else {"text": ""}, reason)]
        if self._ask.stream_usage:
            events.append(_sse({**self._head, "choices": [], "usage": usage(self._ask, self._produced)}))
        return [*events, DONE]

    def _event(self, content: dict[str, Any], reason: str | None = None) -> str:
        return _sse({**self._head, "choices": [{"index": 0, **content, "finish_reason": reason}]})


def _ask(request: dict[str, Any], texts: list[str], limit: int | None) -> Ask:
    return Ask(
        model=str(request.get("model") or ""),
        prompt=" ".join(texts),
        limit=limit,
        endless=bool(request.get("ignore_eos")),
        stream_usage=bool((request.get("stream_options") or {}).get("include_usage")),
    )


def _texts(value: Any) -> list[str]:
    """All strings of a prompt, or of the contents of messages, whatever their nesting."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return _texts(value.get("content") or value.get("text"))
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return []


def _head(kind: str, ask: Ask) -> dict[str, Any]:
    prefix = "cmpl" if kind == "text_completion" else "chatcmpl"
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": ask.model}


def _sse(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, separators=(',', ':'))}\n\n"

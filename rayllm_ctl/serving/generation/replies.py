"""Answers in the forms of OpenAI's API, as plain values."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from rayllm_ctl.serving.generation.sequences import Failure, Output

DONE: Final = "data: [DONE]\n\n"


class Reply:
    """The answers to one request, put together or as server-sent events.

    prompt_tokens: of all prompts together.
    answers: how many there are.
    """

    def __init__(self, model: str, prompt_tokens: int, answers: int, *, chat: bool) -> None:
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._chat = chat
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._texts = [""] * answers
        self._tokens = [0] * answers
        self._reasons: list[str | None] = [None] * answers

    def add(self, output: Output) -> None:
        """Take note of a part."""
        self._texts[output.index] += output.text
        self._tokens[output.index] = output.tokens
        self._reasons[output.index] = output.finish_reason

    @property
    def complete(self) -> bool:
        """Whether all answers have ended."""
        return None not in self._reasons

    def whole(self) -> dict[str, Any]:
        """The response object, when it is complete."""
        choices = [
            {"index": index, **self._content(text), "logprobs": None, "finish_reason": reason}
            for index, (text, reason) in enumerate(zip(self._texts, self._reasons, strict=True))
        ]
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head(kind), "choices": choices, "usage": self.usage()}

    def opening(self) -> list[str]:
        """The events before the first text: a chat names the role of each answer."""
        if not self._chat:
            return []
        role = {"role": "assistant", "content": ""}
        return [
            self._event({"index": index, "delta": role, "finish_reason": None}) for index in range(len(self._texts))
        ]

    def event(self, output: Output) -> str:
        """The event of a part."""
        if self._chat:
            content: dict[str, Any] = {"delta": {"content": output.text} if output.text else {}}
        else:
            content = {"text": output.text}
        return self._event({"index": output.index, **content, "logprobs": None, "finish_reason": output.finish_reason})

    def closing(self, *, usage: bool) -> list[str]:
        """The events after the last part: the usage if it was asked for, and the end mark."""
        figures = [_sse({**self._head(self._chunk), "choices": [], "usage": self.usage()})] if usage else []
        return [*figures, DONE]

    def usage(self) -> dict[str, int]:
        """Tokens of the prompts and of the answers so far."""
        produced = sum(self._tokens)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": produced,
            "total_tokens": self._prompt_tokens + produced,
        }

    @property
    def _chunk(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _content(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _event(self, choice: dict[str, Any]) -> str:
        return _sse({**self._head(self._chunk), "choices": [choice]})


def failure_event(failure: Failure) -> str:
    """The event of an error in a stream that has begun."""
    kind = "server_error" if failure.status >= 500 else "invalid_request_error"
    return _sse({"error": {"message": failure.message, "type": kind, "param": None, "code": failure.status}})


def _sse(value: dict[str, Any] | Sequence[Any]) -> str:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n"

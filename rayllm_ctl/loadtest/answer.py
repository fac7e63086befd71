"""Reads one answer of an OpenAI-compatible server: when its content came, how many tokens, and whether it is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rayllm_ctl.loadtest.events import EventReader

_CONTENT = ("content", "reasoning_content", "reasoning", "refusal")
_DONE = b"[DONE]"
_decode = json.JSONDecoder().decode


@dataclass(slots=True)
class Answer:
    """What was read. Moments are in seconds on the clock of the pieces.

    contents: when each chunk with content came; what a reader sees, so neither the role alone, nor usage, nor [DONE].
    end: when the last chunk with content or a finish_reason came; None if there was none.
    text: all of the content, where the tokens have to be counted.
    error: a kind (`malformed`, `error_event`, `cut`); empty if the answer is whole. message: what to show of it.
    """

    contents: list[float] = field(default_factory=list)
    end: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    text: str = ""
    error: str = ""
    message: str = ""


def read_stream(pieces: Sequence[tuple[float, bytes]], broken: bool) -> Answer:
    """An answer of server-sent events. broken: whether the connection ended before HTTP's end of the body."""
    answer, reader, texts, finished = Answer(), EventReader(), [], False
    for moment, piece in pieces:
        for data in reader.feed(piece):
            if data == _DONE:
                finished = True
                continue
            chunk = _object(data)
            if chunk is None:
                return _failed(answer, "malformed", f"an event is not a JSON object: {shown(data)}")
            if chunk.get("error"):
                return _failed(answer, "error_event", f"the stream has an error: {shown(json.dumps(chunk['error']))}")
            _usage(answer, chunk)
            choices = _choices(chunk)
            text = "".join(map(_content, choices))
            ended = any(choice.get("finish_reason") is not None for choice in choices)
            finished |= ended
            if text:
                texts.append(text)
                answer.contents.append(moment)
            if text or ended:
                answer.end = moment
    answer.text = "".join(texts)
    if not finished:
        how = "the connection ended" if broken else "the stream ended"
        return _failed(answer, "cut", f"{how} before a finish_reason or [DONE]")
    if answer.end is None:
        answer.end = pieces[-1][0]  # [DONE] alone
    return answer


def read_whole(body: bytes, end: float, broken: bool) -> Answer:
    """An answer that came in one JSON object."""
    if broken:
        return _failed(Answer(), "cut", "the connection ended before the end of the answer")
    chunk = _object(body)
    if chunk is None or not (choices := _choices(chunk)):
        return _failed(Answer(), "malformed", f"the answer is not one of the OpenAI API: {shown(body)}")
    answer = Answer(end=end, text="".join(_content(choice) for choice in choices))
    _usage(answer, chunk)
    return answer


def shown(data: bytes | str, width: int = 200) -> str:
    """The beginning of what a server sent, on one line."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _failed(answer: Answer, error: str, message: str) -> Answer:
    answer.error, answer.message = error, message
    return answer


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = _decode(data.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _choices(chunk: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = chunk.get("choices")
    return [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []


def _content(choice: Mapping[str, Any]) -> str:
    """What a reader sees of a choice: text, reasoning, or a tool call."""
    part = choice.get("delta") or choice.get("message") or choice
    if not isinstance(part, dict):
        return ""
    if len(part) == 1 and isinstance(text := part.get("content"), str):
        return text  # what nearly all chunks are
    if isinstance(text := part.get("text"), str) and text:
        return text
    found = "".join(part[name] for name in _CONTENT if isinstance(part.get(name), str))
    calls = part.get("tool_calls")
    return found + json.dumps(calls) if calls else found


def _usage(answer: Answer, chunk: Mapping[str, Any]) -> None:
    usage = chunk.get("usage")
    if not isinstance(usage, dict):
        return
    if isinstance(tokens := usage.get("prompt_tokens"), int):
        answer.prompt_tokens = tokens
    if isinstance(tokens := usage.get("completion_tokens"), int):
        answer.completion_tokens = tokens

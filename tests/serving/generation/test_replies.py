"""Answers in the forms of the API."""

from __future__ import annotations

import json
from typing import Any

from rayllm_ctl.serving.generation.replies import DONE, Reply, failure_event
from rayllm_ctl.serving.generation.sequences import Failure, Output


def value(event: str) -> Any:
    assert event.startswith("data: ")
    assert event.endswith("\n\n")
    return json.loads(event[6:])


def test_a_stream_of_a_chat() -> None:
    reply = Reply("m", 7, 2, chat=True)
    outputs = [Output(0, "a", 1), Output(1, "b", 1), Output(0, "c", 2, "stop"), Output(1, "", 2, "length")]
    for output in outputs:
        assert not reply.complete
        reply.add(output)
    assert reply.complete
    opening = [value(event) for event in reply.opening()]
    assert [chunk["choices"][0] for chunk in opening] == [
        {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None} for index in (0, 1)
    ]
    chunks = [value(reply.event(output)) for output in outputs]
    assert {(chunk["object"], chunk["id"], chunk["model"]) for chunk in [*opening, *chunks]} == {
        ("chat.completion.chunk", opening[0]["id"], "m")
    }
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"content": "a"}, {"content": "b"}, {"content": "c"}, {},
    ]  # fmt: skip
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop", "length"]
    assert reply.closing(usage=False) == [DONE]
    usage, done = reply.closing(usage=True)
    assert done == DONE
    assert value(usage)["choices"] == []
    assert value(usage)["usage"] == {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}


def test_a_whole_completion() -> None:
    reply = Reply("m", 3, 1, chat=False)
    for output in (Output(0, "a", 1), Output(0, "b", 2, "length")):
        reply.add(output)
    whole = reply.whole()
    assert whole["object"] == "text_completion"
    assert whole["choices"] == [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "length"}]
    assert whole["usage"]["total_tokens"] == 5
    assert reply.opening() == []
    assert value(reply.event(Output(0, "b", 2, "length")))["choices"][0]["text"] == "b"


def test_an_error_in_a_stream_has_the_form_of_errors() -> None:
    error = value(failure_event(Failure(503, "out_of_memory", "no memory")))["error"]
    assert error == {"message": "no memory", "type": "server_error", "param": None, "code": 503}

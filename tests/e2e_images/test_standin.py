"""The stand-in for GPUs in the serving image: the form of its answers, and the `ray` command that brings it in."""

from __future__ import annotations

import json

import pytest

from e2e.images.engine.rayllm_standin import ray_command, replies

CHAT = {"model": "m", "messages": [{"role": "system", "content": "a b"}, {"role": "user", "content": "c d e"}]}


def words(request: dict[str, object]) -> list[str]:
    return list(replies.tokens(replies.chat_ask({**CHAT, **request})))


def test_answer_ends_by_itself_or_at_the_limit() -> None:
    whole = words({})
    assert "".join(whole).endswith("to hear m itself.")
    assert words({"max_tokens": 4}) == whole[:4]
    assert words({"max_tokens": 9, "max_completion_tokens": 4}) == whole[:4]
    assert words({"max_tokens": 10_000}) == whole


def test_ignoring_the_end_gives_as_many_tokens_as_asked_for() -> None:
    assert len(words({"max_tokens": 500, "ignore_eos": True})) == 500


def test_prompt_tokens_are_the_words_of_all_messages() -> None:
    assert replies.chat_ask(CHAT).prompt_tokens == 5
    parts = [{"role": "user", "content": [{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}]}]
    assert replies.chat_ask({"model": "m", "messages": parts}).prompt_tokens == 3
    assert replies.completion_ask({"model": "m", "prompt": ["one two", "three"]}).prompt_tokens == 3


def test_completion_has_openais_default_limit() -> None:
    ask = replies.completion_ask({"model": "m", "prompt": "x"})
    produced = list(replies.tokens(ask))
    answer = replies.completion_response(ask, produced)
    assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 16, "total_tokens": 17}
    assert answer["choices"][0]["finish_reason"] == "length"


def test_stream_says_the_same_as_the_whole_answer() -> None:
    ask = replies.chat_ask({**CHAT, "stream_options": {"include_usage": True}})
    produced = list(replies.tokens(ask))
    stream = replies.Stream(ask, chat=True)
    events = [*stream.opening(), *(stream.event(word) for word in produced), *stream.closing()]
    assert events[-1] == replies.DONE
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    said = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    whole = replies.chat_response(ask, produced)
    assert said == whole["choices"][0]["message"]["content"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["usage"] == whole["usage"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-3:-1]] == [None, "stop"]


def test_stream_without_usage_ends_with_the_reason() -> None:
    stream = replies.Stream(replies.completion_ask({"model": "m", "prompt": "x", "max_tokens": 1}), chat=False)
    assert stream.opening() == []
    assert json.loads(stream.event("a").removeprefix("data: "))["choices"][0]["text"] == "a"
    last, done = stream.closing()
    assert json.loads(last.removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert done == replies.DONE


def test_node_that_claims_gpus_gets_their_kind_and_the_engine() -> None:
    arguments, environment = ray_command.stand_in(["start", "--head", "--num-gpus=4"], {})
    assert arguments == ["start", "--head", "--num-gpus=4", '--resources={"accelerator_type:H100": 1}']
    assert environment == {"RAYLLM_VLLM_ENGINE_CLS": "rayllm_standin.engine:StandInEngine"}


def test_given_resources_and_kind_are_kept() -> None:
    given = ["start", "--num-gpus", "8", "--resources", '{"tier": 2}', "--block"]
    arguments, _ = ray_command.stand_in(given, {"RAYLLM_STANDIN_GPU": "L4"})
    assert arguments[:4] == ["start", "--num-gpus", "8", "--block"]
    assert json.loads(arguments[4].removeprefix("--resources=")) == {"accelerator_type:L4": 1, "tier": 2}


@pytest.mark.parametrize(
    "arguments", [["start", "--head"], ["start", "--num-gpus=0"], ["job", "submit", "--num-gpus=4"], []]
)
def test_other_commands_and_nodes_without_gpus_are_left_alone(arguments: list[str]) -> None:
    assert ray_command.stand_in(arguments, {}) == (arguments, {})

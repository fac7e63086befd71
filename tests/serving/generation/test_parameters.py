"""What requests may ask for, and how each wrong value is rejected by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.serving.gateway.errors import Rejected
from rayllm_ctl.serving.gateway.reader import SettingsError
from rayllm_ctl.serving.generation.parameters import Decoding, read_parameters
from rayllm_ctl.serving.generation.prompts import Prompts
from rayllm_ctl.serving.generation.settings import Settings, read_settings

SETTINGS = Settings("float32", max_model_len=100, max_batch_size=4, gpus=0, cpus=1)
MESSAGES = [{"role": "user", "content": "Hello"}]
BEAMS = {"decoding": "beam_search", "num_beams": 3}


def read(*, chat: bool = True, **fields: Any) -> Any:
    prompt: dict[str, Any] = {"messages": MESSAGES} if chat else {"prompt": "Hello"}
    return read_parameters({"model": "m", **prompt, **fields}, SETTINGS, chat=chat)


def test_defaults_are_those_of_the_api() -> None:
    chat, completion = read(), read(chat=False)
    assert (chat.max_tokens, completion.max_tokens) == (None, 16)
    assert (chat.n, chat.stop, chat.stream, chat.include_usage) == (1, (), False, False)
    assert chat.decoding == Decoding("sampling")


@pytest.mark.parametrize(
    ("fields", "decoding"),
    [
        ({"temperature": 0, "top_p": 0.9, "seed": 4}, Decoding("greedy", temperature=0, top_p=0.9, seed=4)),
        ({"decoding": "greedy", "temperature": 0}, Decoding("greedy", temperature=0)),
        ({"temperature": 0.5, "top_k": -1}, Decoding("sampling", temperature=0.5, top_k=0)),
        ({"decoding": "sampling", "repetition_penalty": 1.2, "min_tokens": 3},
         Decoding("sampling", repetition_penalty=1.2, min_tokens=3)),
        ({**BEAMS, "length_penalty": 2, "n": 3}, Decoding("beam_search", num_beams=3, length_penalty=2.0)),
    ],
)  # fmt: skip
def test_strategies(fields: dict[str, Any], decoding: Decoding) -> None:
    assert read(**fields).decoding == decoding


def test_values_that_ask_for_nothing_are_accepted() -> None:
    given = read(
        tools=[], tool_choice="none", response_format={"type": "text"}, logprobs=False, frequency_penalty=0.0,
        logit_bias={}, stream=True, stream_options={"include_usage": True}, stop="x", user="u", max_tokens=None,
        max_completion_tokens=5,
    )  # fmt: skip
    assert (given.stop, given.include_usage, given.max_tokens, given.max_tokens_field) == (
        ("x",), True, 5, "max_completion_tokens",
    )  # fmt: skip


TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("decoding", {"decoding": "contrastive_search"}),
        ("decoding", {"decoding": "best"}),
        ("decoding", {"decoding": 1}),
        ("temperature", {"temperature": "0.5"}),
        ("temperature", {"temperature": True}),
        ("temperature", {"temperature": 0, "decoding": "sampling"}),
        ("temperature", {"temperature": 0.7, "decoding": "greedy"}),
        ("top_p", {"top_p": 0.7, **BEAMS}),
        ("top_k", {"top_k": 1.0}),
        ("num_beams", {"num_beams": 3}),
        ("num_beams", {"decoding": "beam_search"}),
        ("num_beams", {"decoding": "beam_search", "num_beams": 1}),
        ("num_beams", {"decoding": "beam_search", "num_beams": 5}),
        ("num_beams", {"decoding": "beam_search", "num_beams": "3"}),
        ("length_penalty", {"length_penalty": 2}),
        ("n", {**BEAMS, "n": 4}),
        ("min_tokens", {"min_tokens": 9, "max_tokens": 8}),
        ("ignore_eos", {**BEAMS, "ignore_eos": True}),
        ("tools", {"tools": [TOOL]}),
        ("tool_choice", {"tool_choice": "auto"}),
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("logprobs", {"logprobs": True}),
        ("logit_bias", {"logit_bias": {"1": 5}}),
        ("frequency_penalty", {"frequency_penalty": 0.5}),
        ("stop_token_ids", {"stop_token_ids": [3]}),
        ("skip_special_tokens", {"skip_special_tokens": False}),
        ("something", {"something": 0}),
        ("stream_options.continuous_usage_stats", {"stream": True, "stream_options": {"continuous_usage_stats": True}}),
    ],
)
def test_a_wrong_or_unsupported_field_is_named(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as rejected:
        read(**fields)
    rejection = rejected.value.rejection
    assert (rejection.status, rejection.param) == (400, param)
    assert rejection.message.startswith(param)


def test_an_integer_of_logprobs_is_a_request_for_them() -> None:
    with pytest.raises(Rejected) as rejected:
        read(chat=False, logprobs=0)
    assert rejected.value.rejection.param == "logprobs"


@pytest.mark.parametrize(
    ("length", "fields", "room"),
    [(90, {}, 10), (90, {"max_tokens": 10}, 10), (90, {"chat": False}, 10), (50, {"chat": False}, 16)],
)
def test_the_room_for_an_answer(length: int, fields: dict[str, Any], room: int) -> None:
    assert Prompts(None, 10, 100).room([1] * length, read(**fields), "messages") == room


@pytest.mark.parametrize(
    ("length", "fields", "param"),
    [
        (100, {}, "messages"),
        (90, {"max_tokens": 11}, "max_tokens"),
        (90, {"max_completion_tokens": 11}, "max_completion_tokens"),
    ],
)
def test_what_exceeds_the_context_is_named(length: int, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Rejected) as rejected:
        Prompts(None, 10, 100).room([1] * length, read(**fields), "messages")
    assert (rejected.value.rejection.status, rejected.value.rejection.param) == (400, param)


GIVEN = {"dtype": "bfloat16", "max_model_len": 4096, "max_batch_size": 8, "gpus": 2, "cpus": 1}


def test_settings() -> None:
    memory = {"0": "10GiB", "1": "11GiB", "cpu": "30GiB"}
    settings = read_settings({**GIVEN, "max_memory": memory, "quantization": "bitsandbytes-8bit"})
    assert settings.max_memory == {0: "10GiB", 1: "11GiB", "cpu": "30GiB"}
    assert settings.offloads
    assert (settings.trust_remote_code, settings.revision) == (False, None)
    assert not read_settings(GIVEN).offloads
    assert read_settings({**GIVEN, "revision": "v1"}).revision == "v1"


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("gpus", {"gpus": "2"}),
        ("dtype", {"dtype": "int8"}),
        ("max_batch_size", {"max_batch_size": 0}),
        ("max_memory.1", {"max_memory": {"0": "1GiB"}}),
        ("max_memory.2", {"max_memory": {"0": "1GiB", "1": "1GiB", "2": "1GiB"}}),
        ("max_memory", {"gpus": 0, "max_memory": {"cpu": "1GiB"}}),
        ("quantization", {"gpus": 0, "quantization": "bitsandbytes-4bit"}),
        ("quantization", {"quantization": "awq"}),
        ("trust_remote_code", {"trust_remote_code": 1}),
        ("cpus", {"cpus": 0}),
        ("threads", {"threads": 2}),
    ],
)
def test_wrong_settings_are_named(path: str, changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=rf"^transformers\.{path}:"):
        read_settings({**GIVEN, **changes})

"""Tokens of prompts are counted as the engine counts them, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.body.endpoints import CHAT, COMPLETIONS, SCORE, Endpoint
from rayllm_ctl.serving.gateway.body.tokens import Counter, Tokenizers, load
from rayllm_ctl.serving.gateway.errors import Rejected
from tests.serving.gateway.upstream import Words

TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'tool' and not tools %}"
    "{{ raise_exception('tools are required') }}{% endif %}"
    "<s> {{ message.role }} {{ message.content }}"
    "{% for call in message.tool_calls or [] %} {{ call.function.arguments.city }}{% endfor %} {% endfor %}"
    "{% if think %}think {% endif %}{% if add_generation_prompt %}<s> assistant{% endif %}"
)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    """A tokenizer with one token per word, stored as a model has it and loaded by transformers."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "<s>": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    words.enable_truncation(3)
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="[UNK]")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return Counter(load(str(folder)))


def test_counts_of_a_real_tokenizer(counter: Counter) -> None:
    user = {"role": "user", "content": "one two three four"}
    assert counter.body(CHAT, {"messages": [user]}) == [8]
    assert counter.body(CHAT, {"messages": [user], "add_special_tokens": True}) == [9]
    assert counter.body(CHAT, {"messages": [user], "add_generation_prompt": False}) == [6]
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": "x"}, {"type": "text", "text": "two"}]
    assert counter.body(CHAT, {"messages": [{"role": "user", "content": parts}]}) == [6]
    call = {"function": {"name": "f", "arguments": '{"city": "Bonn am Rhein"}'}}
    assert counter.body(CHAT, {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}) == [7]
    # Options of the template pass, those of the call do not.
    options = {"think": True, "tokenize": True, "chat_template": "x", "return_dict": True}
    assert counter.body(CHAT, {"messages": [user], "chat_template_kwargs": options}) == [9]
    assert counter.body(COMPLETIONS, {"prompt": "one two"}) == [3]
    assert counter.body(COMPLETIONS, {"prompt": ["one", "two three"], "add_special_tokens": False}) == [1, 2]
    assert counter.body(COMPLETIONS, {"prompt": [5, 6, 7]}) == [3]
    assert counter.body(COMPLETIONS, {"prompt": [[5], [6, 7]]}) == [1, 2]
    assert counter.body(SCORE, {"text_1": "one", "text_2": ["two", "three four"]}) == [2, 2, 3]


def test_what_the_template_rejects_is_invalid(counter: Counter) -> None:
    with pytest.raises(Rejected) as raised:
        counter.chat({"messages": [{"role": "tool", "content": "x"}]})
    assert raised.value.rejection.status == 400
    assert raised.value.rejection.message == "messages: rejected by the chat template of the model: tools are required"
    # What only the engine could know is left to it.
    assert (
        counter.chat({"messages": [{"role": "user", "content": "one two"}], "chat_template_kwargs": {"messages": 5}})
        == 2
    )


def test_loaded_once_and_beside_the_event_loop() -> None:
    loaded: list[tuple[str, int]] = []

    def loader(name: str) -> Words:
        loaded.append((name, threading.get_ident()))
        return Words()

    async def run() -> list[list[int]]:
        tokenizers = Tokenizers(loader)
        body: dict[str, Any] = {"prompt": "one two"}
        counts = await asyncio.gather(*(tokenizers.count("m", COMPLETIONS, body, 30) for _ in range(8)))
        return [*counts, await tokenizers.count("m", COMPLETIONS, body, 30)]

    assert asyncio.run(run()) == [[3]] * 9
    assert [name for name, _ in loaded] == ["m"]
    assert loaded[0][1] != threading.get_ident()


def test_short_bodies_are_counted_on_the_event_loop_once_the_template_is_compiled(counter: Counter) -> None:
    threads: list[int] = []

    class Watched(Counter):
        def body(self, endpoint: Endpoint, body: dict[str, Any]) -> list[int]:
            threads.append(threading.get_ident())
            return super().body(endpoint, body)

    async def run() -> None:
        tokenizers = Tokenizers(lambda _: counter._tokenizer)
        await tokenizers.prepare("m")
        tokenizers._counters["m"] = Watched(counter._tokenizer)
        chat = {"messages": [{"role": "user", "content": "one two"}]}
        for size in (60, 60, 100_000):
            assert await tokenizers.count("m", CHAT, chat, size) == [6]
        assert await tokenizers.count("m", COMPLETIONS, {"prompt": "one two"}, 20) == [3]

    asyncio.run(run())
    own = threading.get_ident()
    assert [thread == own for thread in threads] == [False, True, False, False]


def test_a_tokenizer_that_cannot_be_loaded(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[str] = []

    def loader(name: str) -> Words:
        attempts.append(name)
        raise OSError(f"{name}/tokenizer.json")

    async def run() -> None:
        tokenizers = Tokenizers(loader)
        for _ in range(2):
            with pytest.raises(Rejected) as raised:
                await tokenizers.count("/models/m", COMPLETIONS, {"prompt": "x"}, 30)
            assert raised.value.rejection.status == 503
            assert "/models" not in raised.value.rejection.message

    asyncio.run(run())
    assert attempts == ["/models/m"]
    assert "/models/m/tokenizer.json" in caplog.text

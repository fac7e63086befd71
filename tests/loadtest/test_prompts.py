"""What requests are made of."""

from __future__ import annotations

import json
import random
from itertools import islice
from statistics import median

import pytest

from rayllm_ctl.loadtest.prompts import BadPrompts, draw, read_rows, rows
from rayllm_ctl.loadtest.settings import Length, Prompts


def test_lengths_have_their_distribution() -> None:
    source = random.Random(1)
    uniform = [draw(Length("uniform", 5, 9), source) for _ in range(500)]
    assert {*uniform} == {5, 6, 7, 8, 9}
    lognormal = [draw(Length("lognormal", 100, 300, 0.7), source) for _ in range(4000)]
    assert median(lognormal) == pytest.approx(100, rel=0.06)
    assert max(lognormal) == 300


def test_prompts_are_repeatable_and_share_their_beginning() -> None:
    prompts = Prompts(Length("fixed", 30, 30), Length("fixed", 7, 7), prefix=20, prefixes=2)
    found = list(islice(rows(prompts, "completions", None), 40))
    assert found == list(islice(rows(prompts, "completions", None), 40))
    assert all(len(row["prompt"].split()) == 30 and row["max_tokens"] == 7 for row in found)
    assert len({" ".join(row["prompt"].split()[:20]) for row in found}) == 2
    assert len({row["prompt"] for row in found}) == 40


def test_files() -> None:
    conversation = {"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "one two three"}]}
    text = json.dumps([conversation, {"conversations": []}])
    assert read_rows(text, "chat", lambda text: len(text.split())) == (
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3},
    )
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    lines = [{"prompt": "one", "temperature": 0}, {"custom_id": "a", "body": {"model": "m", "messages": messages}}]
    first, second = read_rows("".join(json.dumps(line) + "\n\n" for line in lines), "chat", len)
    assert first == {"messages": [{"role": "user", "content": "one"}], "temperature": 0}
    assert second == {"messages": messages}


@pytest.mark.parametrize(
    ("text", "api", "says"),
    [
        ("{x", "chat", "line 1 is not JSON"),
        ('{"prompt": "a"}\n[1]', "chat", "line 2 is not a JSON object"),
        ('{"text": "a"}', "chat", "line 1 has no `prompt` or `messages`; it has text"),
        ('{"messages": [{}]}', "completions", "line 1 has no `prompt`; it has messages"),
        ('{"prompt": "a"}\n{"prompt": ""}', "chat", "the prompt in line 2 is empty"),
        ('{"messages": []}', "chat", "the messages in line 1 are empty"),
        ("[{", "chat", "not JSON"),
        ("[]", "chat", "no prompt"),
    ],
)
def test_bad_files_name_the_line(text: str, api: str, says: str) -> None:
    with pytest.raises(BadPrompts, match=says):
        read_rows(text, api, len)  # type: ignore[arg-type]

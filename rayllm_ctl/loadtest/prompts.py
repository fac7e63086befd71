"""The rows that requests are built from: texts of given lengths, or those of a file."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Protocol

from rayllm_ctl.loadtest.settings import API, Length, Prompts

_WORDS = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which
one you were all her she there would their we him been has when who will no more if out so up said what its
about than into them can only other time new some could these two may first then do any like my now over such
our man me even most made after also did many off before must well back through years much where your way down
should because long
""".split()  # noqa: SIM905 -- a hundred quotation marks help nobody
"""Common words, each of which is one token of the usual vocabularies, with the space before it."""

_POOL = 1 << 16
"""Words of which prompts are parts: drawing each word of each prompt would take more CPU than sending it."""

_LIMITS = {"max_tokens", "max_completion_tokens"}


class Tokenizer(Protocol):
    """What is used of a tokenizer of Hugging Face."""

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]:
        """The tokens of a text."""

    def decode(self, token_ids: list[int]) -> str:
        """The text of tokens."""


def rows(prompts: Prompts, api: API, tokenizer: Tokenizer | None) -> Iterator[Mapping[str, Any]]:
    """Fields of the body for request after request, without end; the same for the same prompts."""
    random_ = random.Random(prompts.seed)  # noqa: S311
    for given in cycle(prompts.rows):
        if prompts.output is None or _LIMITS & set(given):
            yield given
        else:
            yield {**given, "max_tokens": draw(prompts.output, random_)}
    words = random_.choices(_WORDS, k=_POOL)
    shared = [_text(words, random_, prompts.prefix, tokenizer) for _ in range(prompts.prefixes)]
    while True:
        prefix = random_.choice(shared)
        text = _text(words, random_, max(1, draw(prompts.input, random_) - prompts.prefix), tokenizer)
        row = as_row(f"{prefix} {text}" if prefix else text, api)
        if prompts.output is not None:
            row["max_tokens"] = draw(prompts.output, random_)
        yield row


def as_row(prompt: str, api: API) -> dict[str, Any]:
    """The fields that hold a prompt."""
    return {"messages": [{"role": "user", "content": prompt}]} if api == "chat" else {"prompt": prompt}


def draw(length: Length, random_: random.Random) -> int:
    """A number of tokens, at least 1."""
    if length.kind == "uniform":
        return random_.randint(length.low, length.high)
    if length.kind == "lognormal":
        return min(length.high, max(1, round(random_.lognormvariate(math.log(length.low), length.sigma))))
    return length.low


def _text(words: list[str], random_: random.Random, tokens: int, tokenizer: Tokenizer | None) -> str:
    """So many words. The first three are drawn, since a prefix cache would answer a part of prompts that begin alike;
    the others are a part of `words`, which may be that of another prompt too."""
    drawn = random_.choices(_WORDS, k=min(3, tokens))
    begin = random_.randrange(len(words))
    rest = words[begin : begin + tokens - len(drawn)]
    while len(drawn) + len(rest) < tokens:
        rest += words[: tokens - len(drawn) - len(rest)]
    text = " ".join(drawn + rest)
    if tokenizer is None:
        return text
    return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)[:tokens])


class BadPrompts(ValueError):
    """A file of prompts that cannot be used; the message names the line."""


def read_rows(text: str, api: API, count: Callable[[str], int]) -> tuple[Mapping[str, Any], ...]:
    """Rows of a file with this text: JSON of ShareGPT's form (a list of conversations), or JSON Lines with `prompt`,
    `messages`, the body of an OpenAI request, or a line of an OpenAI batch file. count: of the tokens of a text, for
    the lengths of ShareGPT's answers.

    Raises BadPrompts.
    """
    if text.lstrip()[:1] == "[":
        found = [*_conversations(text, api, count)]
    else:
        lines = enumerate(text.split("\n"), 1)
        found = [_line(line, number, api) for number, line in lines if line.strip()]
    if not found:
        raise BadPrompts("there is no prompt in it")
    return tuple(found)


def _conversations(text: str, api: API, count: Callable[[str], int]) -> Iterator[Mapping[str, Any]]:
    """The first question of each conversation, and as many tokens for the answer as the first answer has."""
    try:
        items = json.loads(text)
    except ValueError as error:
        raise BadPrompts(f"it is not JSON: {error}") from error
    for item in items:
        turns = item.get("conversations", ()) if isinstance(item, dict) else ()
        texts = [str(turn.get("value") or "").strip() for turn in turns if isinstance(turn, dict)]
        if len(texts) >= 2 and texts[0] and texts[1]:
            yield {**as_row(texts[0], api), "max_tokens": max(1, count(texts[1]))}


def _line(line: str, number: int, api: API) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadPrompts(f"line {number} is not JSON: {error}") from error
    if isinstance(row, dict) and isinstance(row.get("body"), dict):
        row = row["body"]
    if not isinstance(row, dict):
        raise BadPrompts(f"line {number} is not a JSON object")
    row = {name: value for name, value in row.items() if name not in ("model", "stream", "stream_options")}
    prompt, messages = row.get("prompt"), row.get("messages")
    if api == "chat" and isinstance(messages, list) and messages:
        return row
    if isinstance(prompt, str) and prompt:
        del row["prompt"]
        return {**row, **as_row(prompt, api)}
    empty = next((key for key in ("prompt", "messages") if row.get(key) in ("", [])), None)
    if empty is not None:
        raise BadPrompts(f"the {empty} in line {number} {'are' if empty == 'messages' else 'is'} empty")
    wanted = "`prompt` or `messages`" if api == "chat" else "`prompt`"
    raise BadPrompts(f"line {number} has no {wanted}; it has {', '.join(sorted(row)) or 'nothing'}")

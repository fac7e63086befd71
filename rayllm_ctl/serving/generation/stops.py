"""The text of tokens as they come, up to a stop sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

INCOMPLETE: Final = "\ufffd"
"""What tokenizers write for bytes that are not (yet) a character."""


class TextStream:
    """Turns tokens into text that is final: `push` returns what was added and will not change.

    A character whose bytes are spread over tokens comes when it is complete. Text with which a stop sequence may begin
    is kept back until it is known not to be one; of a stop sequence nothing ever comes, nor of what follows it.

    decode: the text of token ids, without special tokens.
    context: the last tokens of the prompt. Some tokenizers drop the space in front of the first of the tokens that they
    decode, so the first token needs others before it.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = (), context: Sequence[int] = ()
    ) -> None:
        self._decode = decode
        self._stops = tuple(stops)
        self._tokens = list(context)
        self._from = 0
        self._shown = len(self._tokens)
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that this token makes final."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._from : self._shown])
        text = self._decode(self._tokens[self._from :])
        if len(text) <= len(before) or text.endswith(INCOMPLETE):
            return ""
        self._from, self._shown = self._shown, len(self._tokens)
        return self._pass(text[len(before) :])

    def finish(self) -> str:
        """What was kept back, as no more tokens come."""
        before = self._decode(self._tokens[self._from : self._shown])
        rest = self._decode(self._tokens[self._from :])[len(before) :]
        self._shown = self._from = len(self._tokens)
        text = self._pass(rest)
        if self.stopped:
            return text
        held, self._held = self._held, ""
        return text + held

    def _pass(self, added: str) -> str:
        if self.stopped:
            return ""
        text = self._held + added
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        kept = _possible_beginning(text, self._stops)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _possible_beginning(text: str, stops: Sequence[str]) -> int:
    """Characters at the end of `text` with which one of `stops` begins; the most there are."""
    longest = min(len(text), max(map(len, stops), default=1) - 1)
    for size in range(longest, 0, -1):
        end = text[-size:]
        if any(stop.startswith(end) for stop in stops):
            return size
    return 0

"""A generated sequence: its input, and the use of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rayllm_ctl.serving.generation.parameters import Decoding
from rayllm_ctl.serving.generation.stops import TextStream

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Output:
    """What is new of an answer."""

    index: int
    """Of the answer in its request."""
    text: str
    tokens: int
    """Generated so far, a token that ended the answer included."""
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing more comes: an HTTP status, a word for programs, and a message for the client."""

    status: int
    code: str
    message: str


Deliver = Callable[[Output | Failure], None]
"""Called in the generating thread."""


class Answer:
    """One answer of a request: its text, and when it ends.

    end_tokens: end the answer and are not part of its text.
    """

    def __init__(
        self, index: int, text: TextStream, max_tokens: int, end_tokens: Collection[int], deliver: Deliver
    ) -> None:
        self.finished = False
        self._index = index
        self._text = text
        self._most = max_tokens
        self._ends = end_tokens
        self._deliver = deliver
        self._tokens = 0

    def push(self, token: int) -> None:
        """The next token."""
        self._tokens += 1
        if token in self._ends:
            self._finish("", "stop")
            return
        text = self._text.push(token)
        if self._text.stopped or self._tokens >= self._most:
            self._finish(text, "length")
        elif text:
            self._deliver(Output(self._index, text, self._tokens))

    def end(self) -> None:
        """No token comes any more; for a search that ended by itself."""
        if not self.finished:
            self._finish("", "length" if self._tokens >= self._most else "stop")

    def fail(self, failure: Failure) -> None:
        """There is no (more) text."""
        self.finished = True
        self._deliver(failure)

    def _finish(self, text: str, reason: FinishReason) -> None:
        text += self._text.finish()
        self.finished = True
        self._deliver(Output(self._index, text, self._tokens, "stop" if self._text.stopped else reason))


class Generation:
    """What is computed for a prompt: one answer, or with beam search as many as are asked for.

    seed: of this generation; its request may have several.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        decoding: Decoding,
        max_tokens: int,
        seed: int | None,
        answers: Sequence[Answer],
    ) -> None:
        self.prompt = tuple(prompt)
        self.decoding = decoding
        self.max_tokens = max_tokens
        self.seed = seed
        self.answers = tuple(answers)
        self.cancelled = False

    @property
    def rows(self) -> int:
        """Sequences that the model computes at once for it."""
        return self.decoding.num_beams

    @property
    def finished(self) -> bool:
        """Whether nothing is left to compute."""
        return self.cancelled or all(answer.finished for answer in self.answers)

    def fail(self, failure: Failure) -> None:
        """End all answers that have not ended."""
        for answer in self.answers:
            if not answer.finished:
                answer.fail(failure)

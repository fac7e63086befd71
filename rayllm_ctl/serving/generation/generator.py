"""Generates on behalf of coroutines: requests go to the generating thread, and results come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from rayllm_ctl.serving.generation.batcher import Batcher
from rayllm_ctl.serving.generation.parameters import Parameters
from rayllm_ctl.serving.generation.sequences import Answer, Deliver, Failure, Generation, Output
from rayllm_ctl.serving.generation.stops import TextStream

_CONTEXT_TOKENS: Final = 6
"""Of the prompt, with which the first token of an answer is decoded; more than bytes of a character."""


class GenerationFailed(Exception):
    """A request ends without (the rest of) its answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Generator:
    """The generating thread as a source of answers."""

    def __init__(self, batcher: Batcher, decode: Callable[[Sequence[int]], str], end_tokens: Sequence[int]) -> None:
        self._batcher = batcher
        self._decode = decode
        self._ends = frozenset(end_tokens)

    async def generate(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], parameters: Parameters
    ) -> AsyncGenerator[Output, None]:
        """All parts of `n` answers to each prompt, until the last has ended. Closing it cancels what is not finished.

        rooms: the most tokens of an answer to each prompt.
        Raises GenerationFailed.
        """
        parts: asyncio.Queue[Output | Failure] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def deliver(part: Output | Failure) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(parts.put_nowait, part)

        generations = self._generations(prompts, rooms, parameters, deliver)
        left = len(prompts) * parameters.n
        try:
            for generation in generations:
                self._batcher.submit(generation)
            while left:
                part = await parts.get()
                if isinstance(part, Failure):
                    raise GenerationFailed(part)
                left -= part.finish_reason is not None
                yield part
        finally:
            for generation in generations:
                if not generation.finished:
                    self._batcher.cancel(generation)

    def _generations(
        self, prompts: Sequence[Sequence[int]], rooms: Sequence[int], parameters: Parameters, deliver: Deliver
    ) -> list[Generation]:
        decoding, n = parameters.decoding, parameters.n
        ends = frozenset() if decoding.ignore_eos else self._ends
        generations: list[Generation] = []
        for number, (prompt, room) in enumerate(zip(prompts, rooms, strict=True)):
            answers = [
                Answer(
                    number * n + place,
                    TextStream(self._decode, parameters.stop, prompt[-_CONTEXT_TOKENS:]),
                    room,
                    ends,
                    deliver,
                )
                for place in range(n)
            ]
            groups = [answers] if decoding.kind == "beam_search" else [[answer] for answer in answers]
            for place, group in enumerate(groups):
                seed = None if decoding.seed is None else decoding.seed + number * n + place
                generations.append(Generation(prompt, decoding, room, seed, group))
        return generations

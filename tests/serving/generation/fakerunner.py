"""A model without arithmetic: it counts, and does as it is told."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rayllm_ctl.serving.generation.sequences import Generation

END = 9


@dataclass
class Rows:
    generations: list[Generation]
    made: dict[int, int] = field(default_factory=dict)


class FakeRunner:
    """The tokens of a prompt [p, n] are p, p+1, ... and after n of them END.

    A step waits for `go` (None: it does not), so that a test decides what happens between two of them.
    apart: each prompt is a batch of its own at first.
    """

    def __init__(self, *, stepwise: bool = False, joins: bool = True, apart: bool = False) -> None:
        self.go = threading.Semaphore(0) if stepwise else None
        self.in_step = False
        """Nothing joins before the test lets this step go on."""
        self.joins = joins
        self.apart = apart
        self.begun: list[weakref.ref[Rows]] = []
        self.held: list[int] = []
        """How many batches something still refers to, at each join."""
        self.sizes: list[int] = []
        self.fail: Exception | None = None
        self.fail_join: Exception | None = None
        self.recovered = 0

    def divide(self, generations: Sequence[Generation]) -> list[list[Generation]]:
        if self.apart:
            return [[one] for one in generations]
        return [list(generations)] if generations else []

    def begin(self, generations: list[Generation]) -> tuple[Rows, list[int]]:
        rows = Rows(list(generations))
        self.begun.append(weakref.ref(rows))
        return rows, self._tokens(rows)

    def step(self, batch: Rows) -> list[int]:
        if self.go is not None:
            self.in_step = True
            assert self.go.acquire(timeout=10)
            self.in_step = False
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        self.sizes.append(len(batch.generations))
        return self._tokens(batch)

    def keep(self, batch: Rows, places: list[int]) -> None:
        batch.generations = [batch.generations[place] for place in places]

    def can_join(self, first: Rows, second: Rows) -> bool:
        return self.joins

    def join(self, first: Rows, second: Rows) -> None:
        self.held.append(sum(one() is not None for one in self.begun))
        if self.fail_join is not None:
            error, self.fail_join = self.fail_join, None
            raise error
        first.generations += second.generations
        first.made |= second.made

    def search(self, generation: Generation, between: Callable[[], None]) -> list[list[int]]:
        first, count = generation.prompt
        for _ in range(count):
            between()
        return [[first + 10 * place, END] for place in range(len(generation.answers))]

    def recover(self) -> None:
        self.recovered += 1

    def _tokens(self, batch: Rows) -> list[int]:
        tokens = []
        for generation in batch.generations:
            first, count = generation.prompt
            made = batch.made.get(id(generation), 0)
            batch.made[id(generation)] = made + 1
            tokens.append(END if made == count else first + made)
        return tokens

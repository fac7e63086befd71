"""Which sequences are computed when: a thread that gives the model one step after the other.

New sequences join between two steps and finished ones leave, so that none waits for another to end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from rayllm_ctl.serving.generation.runner import Batch, Cancelled, DeviceLost, OutOfMemory, Runner
from rayllm_ctl.serving.generation.sequences import Failure, Generation

logger = logging.getLogger("rayllm.generation")

FULL: Final = Failure(503, "out_of_memory", "The model ran out of memory for the request")
FAILED: Final = Failure(500, "server_error", "The model failed to process the request")
ENDED: Final = Failure(503, "replica_lost", "The replica that processed the request was lost")


class Figures(NamedTuple):
    """As of now, in sequences; each beam of a search is one. `tokens` is a sum since the start."""

    running: int
    waiting: int
    tokens: int


class Batcher:
    """Takes generations in the order in which they come, at most `rows` sequences at once."""

    def __init__(self, runner: Runner, rows: int) -> None:
        self._runner = runner
        self._rows = rows
        self._changed = threading.Condition()
        self._waiting: deque[Generation] = deque()
        self._beginning: list[Generation] = []
        """Admitted, but in no batch yet."""
        self._batches: list[Batch] = []
        self._search: Generation | None = None
        self._tokens = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="generation", daemon=True)

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    def submit(self, generation: Generation) -> None:
        """Compute it when it is its turn."""
        with self._changed:
            if not self.alive:
                generation.fail(ENDED)
                return
            self._waiting.append(generation)
            self._changed.notify()

    def cancel(self, generation: Generation) -> None:
        """Do not compute (more of) it."""
        with self._changed:
            generation.cancelled = True
            if generation in self._waiting:
                self._waiting.remove(generation)

    def stop(self) -> None:
        """End the thread after the current step; what is not finished fails."""
        with self._changed:
            self._ending = True
            self._changed.notify()

    @property
    def alive(self) -> bool:
        """Whether the thread computes, or would."""
        return self._thread.is_alive() and not self._ending

    def figures(self) -> Figures:
        """How much is computed, and how much waits."""
        with self._changed:
            running = sum(generation.rows for generation in self._computed() if not generation.finished)
            return Figures(running, sum(generation.rows for generation in self._waiting), self._tokens)

    def _computed(self) -> list[Generation]:
        searching = [self._search] if self._search is not None else []
        in_batches = [one for batch in list(self._batches) for one in list(batch.generations)]
        # One that is just begun may be in both.
        return list({id(one): one for one in [*self._beginning, *in_batches, *searching]}.values())

    def _taken(self) -> int:
        """Rows that are computed, also those of a cache that cannot give up the rows of finished sequences."""
        searching = self._search.rows if self._search is not None else 0
        return searching + sum(len(batch.generations) for batch in self._batches)

    def _run(self) -> None:
        try:
            while self._wait():
                self._round()
                if self._search is not None:
                    self._beams(self._search)
        except Exception:
            logger.critical(
                "The thread that generates failed; this replica can process no more requests", exc_info=True
            )
        finally:
            self._end()

    def _wait(self) -> bool:
        """Until there is something to compute; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ending or self._waiting or self._batches)
            return not self._ending

    def _end(self) -> None:
        with self._changed:
            self._ending = True
            left = [*self._waiting, *self._computed()]
            self._waiting.clear()
            self._beginning.clear()
            self._batches.clear()
            self._search = None
        for generation in left:
            generation.fail(ENDED)

    def _round(self) -> None:
        """Admit what there is room for, and compute one token of every sequence."""
        for batch in list(self._batches):
            self._drop_finished(batch)
        running = list(self._batches)
        self._beginning = self._admit()
        for group in self._runner.divide(self._beginning):
            self._begin(group)
        self._beginning = []
        for batch in running:
            if batch in self._batches:
                self._step(batch)
        self._join()

    def _admit(self) -> list[Generation]:
        """The next generations for which there is room; a beam search that has its turn becomes `_search`."""
        admitted: list[Generation] = []
        with self._changed:
            room = self._rows - self._taken()
            for generation in list(self._waiting):
                searches = generation.decoding.kind == "beam_search"
                if searches and self._search is not None:
                    # It waits for the other search; those behind it need not.
                    continue
                if generation.rows > room:
                    break
                self._waiting.remove(generation)
                room -= generation.rows
                if searches:
                    self._search = generation
                else:
                    admitted.append(generation)
        return admitted

    def _begin(self, generations: list[Generation]) -> None:
        begun = self._guard(generations, lambda: self._runner.begin(generations))
        if begun is not None:
            batch, tokens = begun
            self._batches.append(batch)
            self._push(batch, tokens)

    def _step(self, batch: Batch) -> None:
        tokens = self._guard(batch.generations, lambda: self._runner.step(batch))
        if tokens is None:
            self._batches.remove(batch)
        else:
            self._push(batch, tokens)

    def _push(self, batch: Batch, tokens: list[int]) -> None:
        for generation, token in zip(batch.generations, tokens, strict=True):
            if not generation.finished:
                self._tokens += 1
                self._guard([generation], partial(generation.answers[0].push, token))
        self._drop_finished(batch)

    def _drop_finished(self, batch: Batch) -> None:
        places = [place for place, generation in enumerate(batch.generations) if not generation.finished]
        if not places:
            self._batches.remove(batch)
        elif len(places) < len(batch.generations):
            self._guard(batch.generations, lambda: self._runner.keep(batch, places))

    def _join(self) -> None:
        """Make as few batches as possible, since each is a step of its own.

        A batch is dropped as soon as it is joined: what it has in memory is then in the other one.
        """
        place = 0
        while place < len(self._batches):
            batch = self._batches[place]
            other = next((one for one in self._batches[:place] if self._runner.can_join(one, batch)), None)
            if other is None:
                place += 1
                continue
            both = [*other.generations, *batch.generations]
            joined = self._guard(both, partial(self._joined, other, batch))
            self._batches.remove(batch)
            if not joined:
                self._batches.remove(other)
                place -= 1

    def _joined(self, first: Batch, second: Batch) -> bool:
        self._runner.join(first, second)
        return True

    def _beams(self, generation: Generation) -> None:
        def between() -> None:
            if generation.cancelled or self._ending:
                raise Cancelled
            self._round()

        found = self._guard([generation], lambda: self._runner.search(generation, between))
        for answer, tokens in zip(generation.answers, found or (), strict=False):
            for token in tokens:
                if not answer.finished:
                    answer.push(token)
            answer.end()
            self._tokens += len(tokens)
        self._search = None

    def _guard(self, generations: Sequence[Generation], compute: Callable[[], Any]) -> Any:
        """The result, or None if the step failed: then `generations` fail, and the next ones are computed."""
        try:
            return compute()
        except Cancelled:
            failure = ENDED
        except DeviceLost:
            raise
        except OutOfMemory:
            logger.warning("%d sequences failed: out of memory", len(generations), exc_info=True)
            failure = FULL
        except Exception:
            logger.exception("%d sequences failed", len(generations))
            failure = FAILED
        # What was being computed when it failed is referred to by the exception until here.
        self._runner.recover()
        for generation in generations:
            generation.fail(failure)
        return None

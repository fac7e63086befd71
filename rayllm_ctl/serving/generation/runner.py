"""What the generating thread asks of a model, and how its steps may fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rayllm_ctl.serving.generation.sequences import Generation


class OutOfMemory(Exception):
    """A step needed more memory than there is; the model is as before."""


class DeviceLost(Exception):
    """No further step can succeed in this process."""


class Cancelled(Exception):
    """Nobody waits for the result of a beam search."""


class Batch(Protocol):
    """Sequences that are computed together."""

    generations: list[Generation]


class Runner(Protocol):
    """The model. All methods are called in one thread; they raise OutOfMemory and DeviceLost."""

    def divide(self, generations: Sequence[Generation]) -> list[list[Generation]]:
        """Groups whose prompts can be computed together."""

    def begin(self, generations: list[Generation]) -> tuple[Any, list[int]]:
        """Compute the prompts; a batch and its first tokens."""

    def step(self, batch: Any) -> list[int]:
        """The next token of each sequence of a batch."""

    def keep(self, batch: Any, places: list[int]) -> None:
        """Remove all sequences but those at `places`, or none where the model's cache cannot be cut."""

    def can_join(self, first: Any, second: Any) -> bool:
        """Whether two batches can become one."""

    def join(self, first: Any, second: Any) -> None:
        """Add the second batch to the first."""

    def search(self, generation: Generation, between: Callable[[], None]) -> list[list[int]]:
        """The tokens of each answer by beam search; `between` is called between two steps, and may raise Cancelled."""

    def recover(self) -> None:
        """Free what a failed step may have left."""

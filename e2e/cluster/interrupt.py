"""Ctrl-C and SIGTERM, noted where they come and raised where something waits.

A handler that raises does so between any two steps of the main thread, also when a thread pool has just taken one of
its locks and does not know it yet. That lock then stays taken, and the pool waits for its threads for ever.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_noted: Final[set[int]] = set()


@contextlib.contextmanager
def noted(end_waiting: Callable[[], None]) -> Iterator[None]:
    """Note the first signal within the block and call `end_waiting`, which may do no more than a signal handler can.

    A second signal ends the process at once. However the block ends after a signal, it raises KeyboardInterrupt.
    """

    def note(number: int, _frame: FrameType | None) -> None:
        _noted.add(number)
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        end_waiting()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    except Exception:
        # Whatever failed did so because it was interrupted.
        check()
        raise
    else:
        check()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _noted.clear()


def pending() -> bool:
    """Whether a signal was noted in the block that runs."""
    return bool(_noted)


def check() -> None:
    """KeyboardInterrupt, in any thread, once a signal was noted. For all that takes long to call again and again."""
    if pending():
        raise KeyboardInterrupt

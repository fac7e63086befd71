"""Threads that reconcile the keys of a queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rayllm_ctl.controller.loop.log import LOG, about, error_text
from rayllm_ctl.controller.loop.metrics import Outcome
from rayllm_ctl.controller.loop.queue import KeyQueue
from rayllm_ctl.controller.types import Key, Reconciler


class Workers:
    """`count` threads, which take keys of the queue until they are stopped.

    permitted: asked before each reconciliation; where it says no, the thread ends. ended: told of each reconciliation
    and its seconds. clock: seconds, for the queue.
    """

    def __init__(
        self,
        queue: KeyQueue,
        count: int,
        *,
        permitted: Callable[[], bool],
        ended: Callable[[Outcome, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._permitted = permitted
        self._ended = ended
        self._clock = clock
        self._condition = threading.Condition()
        self._stopping = False
        self._count = count
        self._threads: list[threading.Thread] = []

    def mark(self, key: Key) -> None:
        """Make `key` due. Called by any thread."""
        with self._condition:
            self._queue.mark(key, self._clock())
            self._condition.notify()

    def start(self, reconciler: Reconciler) -> None:
        """Start the threads."""
        self._threads = [
            threading.Thread(target=self._work, args=(reconciler,), name=f"reconcile-{number}", daemon=True)
            for number in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> tuple[Key, ...]:
        """Take no more keys, and wait at most `seconds` for those that run. Returns the keys that still run."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        until = self._clock() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock()))
        with self._condition:
            return self._queue.running

    @property
    def alive(self) -> bool:
        """Whether no thread has ended, unless it was told to."""
        return self._stopping or all(thread.is_alive() for thread in self._threads)

    @property
    def depth(self) -> int:
        """How many keys wait for a thread."""
        with self._condition:
            return self._queue.depth(self._clock())

    @property
    def failing(self) -> int:
        """How many keys failed when they were last reconciled."""
        with self._condition:
            return self._queue.failing

    def step(self, reconciler: Reconciler) -> bool:
        """Reconcile the next key, or wait until one is due. False: the thread is to end."""
        with self._condition:
            while True:
                if self._stopping or not self._permitted():
                    return False
                key = self._queue.take(self._clock())
                if key is not None:
                    break
                self._condition.wait(self._queue.wait(self._clock()))
        self._reconcile(key, reconciler)
        return True

    def _work(self, reconciler: Reconciler) -> None:
        while self.step(reconciler):
            pass

    def _reconcile(self, key: Key, reconciler: Reconciler) -> None:
        begun = self._clock()
        try:
            after = reconciler.reconcile(key)
        except Exception as error:  # one object must not stop the others, whatever is wrong with it
            with self._condition:
                seconds = self._queue.failed(key, self._clock())
                self._condition.notify()
            self._ended("error", self._clock() - begun)
            LOG.error("%s; next try in %.1f s", error_text(error), seconds, extra=about(key))
            return
        with self._condition:
            self._queue.succeeded(key, self._clock(), after)
            self._condition.notify()
        self._ended("success", self._clock() - begun)
        LOG.debug("reconciled in %.3f s", self._clock() - begun, extra=about(key))

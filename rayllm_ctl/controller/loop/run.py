"""The process: watches, election, workers and probes, from its start until it is told to end."""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from rayllm_ctl.cluster.api.errors import ServerFailingError, UnreachableError
from rayllm_ctl.controller.loop.election import REQUEST_SECONDS, Election, Lease, LeaseTimes
from rayllm_ctl.controller.loop.log import LOG, error_text
from rayllm_ctl.controller.loop.metrics import Metrics
from rayllm_ctl.controller.loop.probes import Address, ProbeAnswers, Probes
from rayllm_ctl.controller.loop.queue import KeyQueue
from rayllm_ctl.controller.loop.workers import Workers
from rayllm_ctl.controller.types import Parts, Scope
from rayllm_ctl.errors import FAILED, OK, UserError
from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

FINISH_SECONDS = 15.0
"""How long reconciliations that run may take to end: with the rest less than the 30 s that Kubernetes waits."""

BEGIN_SECONDS = 0.2
"""How often a process looks whether it can begin: whether it holds the Lease, and everything was listed."""

SIGNAL_SECONDS = 1.0
"""How often the main thread looks for a signal. One that arrives right before it begins to wait does not wake it up."""

REACH_SECONDS = 2.0
"""Between two tries to reach the API server at first."""

Ends = SimpleQueue["str | Exception"]
"""Why the process is to end: a signal, or an error. `put` of a SimpleQueue may be called by a signal's handler."""


@dataclass(frozen=True)
class ControllerOptions:
    """lease_namespace: where the Lease is, None: no election. workers: reconciliations at the same time."""

    scope: Scope
    workers: int
    listen: Address
    lease_namespace: str | None
    lease_times: LeaseTimes = LeaseTimes()


class Process:
    """One run of the controller."""

    def __init__(
        self, options: ControllerOptions, cluster: Cluster, election_cluster: Cluster, parts: Parts,
        die: Callable[[str], None],
    ) -> None:  # fmt: skip
        """die: ends the process at once, without a reconciliation that runs."""
        self.ending: Ends = SimpleQueue()
        self._options = options
        self._elected = threading.Event()
        self._metrics = Metrics()
        self._election: Election | None = None
        if options.lease_namespace is not None:
            identity = f"{socket.gethostname()}_{uuid.uuid4()}"
            lease = Lease(election_cluster, options.lease_namespace, identity, options.lease_times)
            self._election = Election(lease, elected=self._elected.set, lost=die, failed=self.ending.put)
        else:
            self._elected.set()
        self._leads: Callable[[], bool] = self._election.leads if self._election else lambda: True
        self._workers = Workers(KeyQueue(), options.workers, permitted=self._leads, ended=self._metrics.ended)
        self._caches, self._reconciler = parts(cluster, options.scope, self._workers.mark)
        self._stopped = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="watches", daemon=True)

    def run(self) -> None:
        """Until something is put into `ending`; raises it if it is an error."""
        answers = ProbeAnswers(unhealthy=self._unhealthy, unready=self._unready, metrics=self._page)
        with Probes(self._options.listen, answers) as probes:
            LOG.info("probes and metrics on port %d", probes.port)
            self._watching.start()
            if self._election:
                self._election.start()
            try:
                self._wait()
            finally:
                self._stop()

    def _watch(self) -> None:
        try:
            while not self._started():
                if self._stopped.wait(REACH_SECONDS):
                    return
            self._caches.pump(self._stopped)
        except Exception as error:  # without its watches the process is of no use
            self.ending.put(error)

    def _started(self) -> bool:
        try:
            self._caches.start()
        except (UnreachableError, ServerFailingError) as error:
            # The API server may be starting, or be upgraded: no reason for a restart after a longer and longer delay.
            LOG.warning(error_text(error))
            return False
        return True

    def _wait(self) -> None:
        begun = False
        while True:
            if not begun and self._elected.is_set() and self._caches.synced:
                begun = True
                self._workers.start(self._reconciler)
                LOG.info("reconciles with %d workers", self._options.workers)
            try:
                end = self.ending.get(timeout=SIGNAL_SECONDS if begun else BEGIN_SECONDS)
            except Empty:
                continue
            if isinstance(end, Exception):
                raise end
            LOG.info("%s: ending", end)
            return

    def _stop(self) -> None:
        running = self._workers.stop(FINISH_SECONDS)
        for key in running:
            LOG.warning("%s is still being reconciled: it is interrupted", key)
        if self._election:
            self._election.stop(release=not running)
        self._stopped.set()
        self._caches.close()
        LOG.info("ended")

    def _unhealthy(self) -> str | None:
        return None if self._workers.alive else "a worker has ended"

    def _unready(self) -> str | None:
        if self._caches.synced:
            return None
        trouble = self._caches.trouble
        return f"not everything was listed yet{f': {trouble}' if trouble else ''}"

    def _page(self) -> str:
        return self._metrics.text(
            depth=self._workers.depth, failing=self._workers.failing, leading=self._leads(),
            objects=[item for item in map(self._caches.get, self._caches.keys()) if item is not None],
        )  # fmt: skip


def run_controller(options: ControllerOptions, connect: Callable[[float | None], Cluster], parts: Parts) -> int:
    """Run the controller in the main thread until SIGTERM or SIGINT. Returns the exit code; what went wrong is logged.

    connect: makes a connection; its argument is the time limit of its requests, None: the usual one.
    """
    try:
        process = Process(options, connect(None), connect(REQUEST_SECONDS), parts, _die)
        with _signals(process.ending):
            process.run()
    except UserError as error:
        LOG.error(error_text(error))
        return error.exit_code
    except Exception as error:  # a defect of ours is a line of the log as well
        LOG.error(error_text(error))
        return FAILED
    return OK


@contextmanager
def _signals(ending: Ends) -> Iterator[None]:
    def end(number: int, _frame: FrameType | None) -> None:
        ending.put(signal.Signals(number).name)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _die(why: str) -> NoReturn:
    """Without a clean end: a reconciliation that runs must not write once another process may hold the Lease."""
    LOG.error("the Lease could not be renewed in time (%s): ending at once, as another controller may take it", why)
    os._exit(FAILED)

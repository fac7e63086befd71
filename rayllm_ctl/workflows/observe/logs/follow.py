"""Follow logs as they are written, those of replicas that start later among them, until the service is deleted."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ServerFailingError, UnreachableError
from rayllm_ctl.cluster.api.follower import GRACE_SECONDS
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.cluster.snapshot.container_logs import pieces
from rayllm_ctl.cluster.snapshot.log_sources import Found
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.workflows.observe.logs.lines import LogLine, LogNote, whole_lines
from rayllm_ctl.workflows.observe.logs.position import TailPosition, TimePosition
from rayllm_ctl.workflows.observe.logs.select import LogChoice

if TYPE_CHECKING:
    from rayllm_ctl.cluster.snapshot.log_sources import Found, LogSource

LOOK_SECONDS = 2.5
"""Seconds between two searches for new or deleted logs."""

WAIT_SECONDS = 0.5
"""Seconds within which an interruption is noticed while nothing is written."""


@dataclass(frozen=True)
class _End:
    """A reading has ended, with what broke it."""

    log: _Log
    error: UserError | None


@dataclass(frozen=True)
class _Over:
    """There will be no more lines, and why."""

    message: str


class _Log:
    """A log that is followed. rest: looks to let pass before it is read again: what ended may be about to be gone."""

    def __init__(self, source: LogSource, label: str, tail: int | None) -> None:
        self.source = source
        self.label = label
        self.position = TimePosition(tail) if source.timed else TailPosition(tail)
        self.response: Any = None
        self.received = False
        self.reading = False
        self.noted = False
        self.gone = False
        self.rest = 0

    def stop(self) -> None:
        """End the reading. Closing would wait for the reading thread's lock; shutting the socket down wakes it."""
        response = self.response
        if response is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                response.shutdown()


def follow_logs(choice: LogChoice, found: Found, tail: int | None) -> Iterator[LogLine | LogNote]:
    """The lines of what was `found`, from `tail` lines before its end, and of what comes later, from its beginning.

    Ends when the service, or the one pod that was chosen, is gone. Raises UserError if a right is missing.
    """
    if choice.pod is not None:
        choice = replace(choice, container=all(one.timed for one in found.sources))
    follower = Follower(choice, tail, found)
    try:
        yield from follower.start(found)
        yield from follower.items()
    finally:
        follower.stop()


class Follower:
    """A daemon thread per log and one that looks for logs put what they get into one queue."""

    def __init__(self, choice: LogChoice, tail: int | None, first: Found) -> None:
        self._choice = choice
        self._tail = tail
        self._unread_at_first = frozenset(first.unread)
        self._word = choice.part if choice.part in ("head", "operator", "download") else "replica"
        self._arrived: queue.SimpleQueue[LogLine | Found | _End | _Over | UserError] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._logs: dict[str, _Log] = {}
        self._unread: frozenset[str] = frozenset()
        self._waiting = ""
        self._received = False
        self._failing_since: float | None = None

    def start(self, found: Found) -> Iterator[LogNote]:
        yield from self._take(found, first=True)
        threading.Thread(target=self._look, name="logs", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        for log in self._logs.values():
            log.stop()

    def items(self) -> Iterator[LogLine | LogNote]:
        while True:
            try:
                item = self._arrived.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                continue
            if isinstance(item, LogLine):
                yield item
            elif isinstance(item, Found):
                self._failing_since = None
                yield from self._take(item)
            elif isinstance(item, _End):
                yield from self._ended(item.log, item.error)
            elif isinstance(item, _Over):
                yield LogNote(item.message)
                return
            else:
                yield from self._failed(item)

    def _look(self) -> None:
        choice = self._choice
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                now = find(choice.cluster, choice.kind, choice.name, choice.namespace)
                # A service may be applied after its model has been downloaded.
                found = choice.find({}) if choice.part == "download" else None
                if now is None and not (found and found.sources):
                    self._arrived.put(_Over(f"{choice.kind.name.lower()}/{choice.name} was deleted"))
                    return
                if choice.pod is not None and not choice.has_pod():
                    self._arrived.put(_Over(f"pod/{choice.pod} is gone"))
                    return
                self._arrived.put(found or choice.find(now or {}))
            except UserError as error:
                self._arrived.put(error)

    def _take(self, found: Found, *, first: bool = False) -> Iterator[LogNote]:
        """Start reading new logs, resume interrupted ones, and end deleted ones."""
        yield from (LogNote(text) for name, text in found.unread.items() if name not in self._unread)
        self._unread = frozenset(found.unread)
        present = {one.key: one for one in found.sources if one.state != "waiting"}
        gone = [log for key, log in self._logs.items() if key not in present and self._is_gone(log, found)]
        for log in gone:
            log.gone = True
            log.stop()
        began = [one for key, one in present.items() if key not in self._logs or self._logs[key].gone]
        if not first:
            yield from self._changes([log.source for log in gone], began)
        for key, source in present.items():
            self._go_on(key, source, found, first)
        waiting = "" if any(not log.gone for log in self._logs.values()) else self._why_it_waits(found)
        if waiting and waiting != self._waiting:
            yield LogNote(waiting)
        self._waiting = waiting

    def _why_it_waits(self, found: Found) -> str:
        if found.unread:
            return f"whether there is a {self._word} of {self._choice.name} is unknown: waiting"
        return f"there is no {self._word} of {self._choice.name} now: waiting"

    def _go_on(self, key: str, source: LogSource, found: Found, first: bool) -> None:
        log = self._logs.get(key)
        if log is None:
            old = first or source.cluster in self._unread_at_first
            several = sum(one.pod == source.pod for one in found.sources) > 1
            label = f"{source.pod}/{source.file}" if several else source.pod
            log = self._logs[key] = _Log(source, label, self._tail if old else None)
        elif log.reading or (source.state == "ended" and not log.gone):
            return
        elif log.rest and not log.gone:
            log.rest -= 1
            return
        log.source, log.gone, log.reading = source, False, True
        threading.Thread(target=self._read, args=(log,), name="log", daemon=True).start()

    def _is_gone(self, log: _Log, found: Found) -> bool:
        """Whether a log that was not found is gone. A RayCluster that the service has left may still write logs."""
        of = log.source.cluster
        return not log.gone and (of in found.clusters or (of not in found.unread and not log.reading))

    def _changes(self, gone: Sequence[LogSource], new: Sequence[LogSource]) -> Iterator[LogNote]:
        ended, begun = {one.pod for one in gone}, {one.pod for one in new}
        for pod in sorted(ended | begun):
            if pod in ended and pod in begun:
                yield LogNote(f"pod/{pod}: {self._word} restarted")
            else:
                yield LogNote(f"pod/{pod}: {f'{self._word} ended' if pod in ended else f'new {self._word}'}")

    def _read(self, log: _Log) -> None:
        log.received = False
        error = None
        try:
            with log.source.open(log.position.begin()) as response:
                log.response = response
                for line in whole_lines(pieces(response)):
                    log.received = True
                    for shown in log.position.take(line):
                        self._arrived.put(LogLine(log.label, shown.decode("utf-8", "replace")))
        except UserError as failure:
            error = failure
        finally:
            log.response = None
            self._arrived.put(_End(log, error))

    def _ended(self, log: _Log, error: UserError | None) -> Iterator[LogNote]:
        """An interrupted log is read again at the next search; only a second failure is reported."""
        self._received = self._received or log.received or error is None
        log.reading = False
        log.rest = 0 if error else 1
        if error is None or log.received:
            log.noted = False
        elif not log.gone and not log.noted:
            if not self._received and _is_final(error):
                raise error
            log.noted = True
            yield LogNote(error.message)

    def _failed(self, error: UserError) -> Iterator[LogNote]:
        """A search has failed. An API server that has just started denies requests for a while."""
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            yield LogNote(f"{error.message}: trying again")
        elif _is_final(error) and time.monotonic() - self._failing_since > GRACE_SECONDS:
            raise error


def _is_final(error: UserError) -> bool:
    """Whether credentials or a right are missing."""
    return isinstance(error, ClusterError) and not isinstance(error, (ServerFailingError, UnreachableError))

"""Which of several controllers reconciles: the holder of a Lease, as client-go's leaderelection package has it.

`kubernetes.leaderelection` of the official client (37.0.2) is not used. Its requests have no time limit: a holder whose
connection stalls continues to reconcile while another one takes the Lease. A refused connection raises through its
renewal without a call of `onstopped_leading`, its waits follow the clock of the day, and nothing gives a Lease back.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError, UnauthorizedError
from rayllm_ctl.controller.loop.log import LOG, error_text
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

LEASE_NAME = "rayllm-controller"

REQUEST_SECONDS = 4.0
"""Time limit of a request for the Lease: two fit into the deadline, so that one that stalls does not cost it."""


@dataclass(frozen=True)
class LeaseTimes:
    """In seconds, those of client-go. lease: after which others may take a Lease that is not renewed. deadline: after
    which its holder stops, if it cannot renew it. retry: between two tries.
    """

    lease: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


class Lease:
    """The Lease object, and whether this process holds it. `attempt` and `release` are called by one thread."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        identity: str,
        times: LeaseTimes,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """identity: of this process alone; a restarted one is another. clock: seconds, which never run backwards."""
        self.times = times
        self.where = f"{namespace}/{LEASE_NAME}"
        self._cluster = cluster
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._now = now
        self._stored: Mapping[str, Any] | None = None
        self._stored_at = 0.0
        self._read = False
        self._valid_until: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds for which it is certain that no other process holds the Lease; 0 or less: it is not."""
        return 0.0 if self._valid_until is None else self._valid_until - self._clock()

    @property
    def holder(self) -> str:
        """Who holds it as far as is known; empty: nobody."""
        return str(self._spec().get("holderIdentity") or "")

    def attempt(self) -> bool:
        """Try once to take or to renew the Lease; whether it is this process's now. Raises what the request raises."""
        begun = self._clock()
        try:
            taken = self._take()
        except UserError as error:
            self._read = False  # the request may have been carried out, so what is stored is not known
            if isinstance(error, ApiError) and error.status == 409:
                return False
            raise
        if taken:
            # From before the request: others count from when they see it.
            self._valid_until = begun + self.times.deadline
        return taken

    def release(self) -> None:
        """Give the Lease back, if it is held, so that others need not wait. Raises what the request raises."""
        if self._valid_until is None:
            return
        self._valid_until = None
        if self._read and self.holder == self._identity:
            self._write({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._time()})

    def _take(self) -> bool:
        if not self._read:
            self._look()
        if self._stored is None:
            self._create()
            return True
        spec = self._spec()
        if self.holder == self._identity:
            self._write({"renewTime": self._time(), "leaseDurationSeconds": int(self.times.lease)})
            return True
        self._read = False  # another one's is looked at each time
        if self._valid_until is not None:
            self._valid_until = None
            return False
        lasts = float(spec.get("leaseDurationSeconds") or self.times.lease)
        if self.holder and self._clock() < self._stored_at + lasts:
            return False
        self._write({**self._taken(), "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1})
        return True

    def _look(self) -> None:
        try:
            found: Mapping[str, Any] | None = self._cluster.get("Lease", LEASE_NAME, self._namespace)
        except NotFoundError:
            found = None
        # The time after the answer: it may have been renewed while the request was on its way.
        if found is None or self._stored is None or _version(found) != _version(self._stored):
            self._stored_at = self._clock()
        self._stored, self._read = found, True

    def _create(self) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE_NAME, "namespace": self._namespace},
            "spec": {**self._taken(), "leaseTransitions": 0},
        }  # fmt: skip
        self._stored, self._read = self._cluster.create(body, "Lease", self._namespace), True

    def _write(self, spec: Mapping[str, Any]) -> None:
        """Change the Lease as it was read. The API server answers 409 if it has been changed since."""
        assert self._stored is not None
        body = {"metadata": {"resourceVersion": _version(self._stored)}, "spec": spec}
        self._stored, _ = self._cluster.patch(
            "Lease", LEASE_NAME, self._namespace, body, content_type="application/merge-patch+json"
        )
        self._read = True

    def _taken(self) -> dict[str, Any]:
        at = self._time()
        return {
            "holderIdentity": self._identity, "leaseDurationSeconds": int(self.times.lease),
            "acquireTime": at, "renewTime": at,
        }  # fmt: skip

    def _time(self) -> str:
        """The time of the day, for people: nothing is decided by it, as clocks of machines differ."""
        return self._now().isoformat(timespec="microseconds").replace("+00:00", "Z")

    def _spec(self) -> Mapping[str, Any]:
        return (self._stored or {}).get("spec") or {}


class Election:
    """Takes the Lease and renews it in a thread, and watches the deadline in another one, which no request delays.

    elected: called once, when the Lease is this process's. lost: called once if it is no longer certain that it is,
    with why; no reconciliation may run after that. failed: called where waiting does not help, before it is elected.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        elected: Callable[[], None],
        lost: Callable[[str], None],
        failed: Callable[[UserError], None],
    ) -> None:
        self._lease = lease
        self._elected, self._lost, self._failed = elected, lost, failed
        self._stopped = threading.Event()
        self._watched = threading.Event()
        self._over = threading.Lock()
        self._answered = False
        self._trouble = ""
        self._holder = ""
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._thread.start()

    def leads(self) -> bool:
        """Whether this process may reconcile now."""
        return self._lease.remaining > 0

    def stop(self, release: bool) -> None:
        """End the threads. release: let others take the Lease at once, as nothing is reconciled here any more."""
        self._stopped.set()
        self._thread.join(REQUEST_SECONDS)
        self._watched.set()
        if release and not self._thread.is_alive():
            try:
                self._lease.release()
            except UserError as error:
                LOG.warning("cannot give the Lease %s back: %s", self._lease.where, error_text(error))

    def _run(self) -> None:
        retry = self._lease.times.retry
        while not self._try():
            # Not all at the same time.
            if self._stopped.wait(retry * random.uniform(1.0, 1.2)):  # noqa: S311
                return
        LOG.info("holds the Lease %s", self._lease.where)
        threading.Thread(target=self._watch, name="election-deadline", daemon=True).start()
        self._elected()
        while not self._stopped.wait(retry):
            if not self._try() and not self.leads():
                self._lose()
                return

    def _try(self) -> bool:
        try:
            taken = self._lease.attempt()
        except UserError as error:
            if error.message != self._trouble:
                LOG.warning("cannot read or renew the Lease %s: %s", self._lease.where, error_text(error))
            self._trouble = error.message
            if not self._answered and isinstance(error, (ForbiddenError, NotFoundError, UnauthorizedError)):
                self._failed(error)
            return False
        self._answered, self._trouble = True, ""
        if self._lease.holder != self._holder:
            self._holder = self._lease.holder
            if not taken:
                LOG.info("the Lease %s is held by %s: waiting", self._lease.where, self._holder)
        return taken

    def _watch(self) -> None:
        while (seconds := self._lease.remaining) > 0:
            if self._watched.wait(seconds):
                return
        self._lose()

    def _lose(self) -> None:
        if self._over.acquire(blocking=False) and not self._watched.is_set():
            self._lost(self._trouble or f"held by {self._holder}")


def _version(lease: Mapping[str, Any]) -> str:
    return str(lease["metadata"]["resourceVersion"])

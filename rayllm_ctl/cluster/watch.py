"""Follow objects of several kinds at once: list, watch from there, and list again when the thread of events is lost.

One daemon thread per kind puts changes into one queue. A server that restarts, a connection that dies silently and a
resourceVersion that is too old only cost a new list; what changed meanwhile is reported as changes.
"""

from __future__ import annotations

import contextlib
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.client import Cluster, lines, selectors
from rayllm_ctl.cluster.failures import GoneError, ServerFailingError, UnreachableError, api_error
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.apikinds import kind, label

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

ROUND_SECONDS = 240.0
"""How long the server keeps one watch open: below the five minutes after which load balancers cut idle connections."""

SILENCE_SECONDS = 90.0
"""A watch that sends nothing for so long is taken for dead: bookmarks come about once a minute."""

GRACE_SECONDS = 30.0
"""How long a kind that could be read before may be rejected: an API server that has just started denies requests."""

BACK_OFF = (0.2, 5.0)
"""Seconds before the first and at most before a later try after a failure; doubled each time, with jitter."""


@dataclass(frozen=True)
class Change:
    """What happened to an object. `object` is its newest state, for DELETED the last one known."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Mapping[str, Any]


@dataclass(frozen=True)
class Subscription:
    """The objects of one kind that are followed."""

    kind: str
    label_selector: str = ""
    field_selector: str = ""


class Watch:
    """Changes of several kinds, merged. Use as a context manager: leaving it ends the threads.

    Raises, from `wait` and `drain`, the UserError that ended a thread: a right is missing, the kind is
    unknown. Failures that may pass are retried; `trouble` says what they are while they last.
    """

    def __init__(self, cluster: Cluster, namespace: str | None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._queue: queue.SimpleQueue[Change | UserError] = queue.SimpleQueue()
        self._ahead: list[Change] = []
        self._followers: dict[Subscription, _Follower] = {}

    def follow(self, subscriptions: Iterable[Subscription]) -> None:
        """Follow these and no others: what is followed already goes on. At first every object is reported as ADDED."""
        wanted = dict.fromkeys(subscriptions)
        for subscription in [old for old in self._followers if old not in wanted]:
            self._followers.pop(subscription).stop()
        for subscription in wanted:
            if subscription not in self._followers:
                follower = _Follower(self._cluster, subscription, self._namespace, self._queue.put)
                self._followers[subscription] = follower
                follower.start()

    @property
    def trouble(self) -> str | None:
        """Why some changes may be late: what the last try met, while it has not been followed by a success."""
        return next((text for text in (follower.trouble for follower in self._followers.values()) if text), None)

    def wait(self, seconds: float) -> bool:
        """Block until something changed, at most `seconds`. What changed is left for `drain`."""
        if not self._ahead:
            change = self._next(seconds)
            if change is not None:
                self._ahead.append(change)
        return bool(self._ahead)

    def drain(self) -> list[Change]:
        """All changes so far, without blocking."""
        changes, self._ahead = self._ahead, []
        while (change := self._next(0)) is not None:
            changes.append(change)
        return changes

    def close(self) -> None:
        """End the threads. They hold nothing but a connection each, so nothing waits for them."""
        for follower in self._followers.values():
            follower.stop()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self, seconds: float) -> Change | None:
        try:
            found = self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, UserError):
            raise found
        return found


class _Follower:
    """The thread of one kind. `known` maps a uid to the object's newest state: a new list is compared with it."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        namespace: str | None,
        put: Callable[[Change | UserError], None],
    ) -> None:
        self.trouble: str | None = None
        self._cluster = cluster
        self._kind = kind(subscription.kind)
        self._namespace = namespace
        self._subscription = subscription
        self._put = put
        self._known: dict[str, dict[str, Any]] = {}
        self._version = ""
        self._succeeded_once = False
        self._failing_since: float | None = None
        self._stopped = threading.Event()
        self._response: BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{self._kind.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        response = self._response
        if response is not None:
            # Closing would wait for the reading thread's lock; shutting the socket down wakes it.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                response.shutdown()

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            begun = time.monotonic()
            try:
                if not self._version:
                    self._list()
                self._watch()
                self._succeeded()
            except GoneError:
                self._version = ""
            except UserError as error:
                if not self._may_pass(error):
                    self._put(error)
                    return
                self.trouble = error.message
            # A round that ends at once is a failure too, whatever the server calls it.
            failures = failures + 1 if time.monotonic() - begun < BACK_OFF[1] else 0
            if failures:
                first, most = BACK_OFF
                # Two clients that lost the same server must not come back in step.
                self._stopped.wait(min(first * 2 ** (failures - 1), most) * random.uniform(0.5, 1.0))  # noqa: S311

    def _list(self) -> None:
        listing = self._cluster.listing(
            self._kind.name, self._namespace, label_selector=self._subscription.label_selector,
            field_selector=self._subscription.field_selector,
        )  # fmt: skip
        self._succeeded()
        present = {_uid(item): item for item in listing.items}
        for uid, item in present.items():
            old = self._known.get(uid)
            if old is None:
                self._put(Change("ADDED", item))
            elif _version(old) != _version(item):
                self._put(Change("MODIFIED", item))
        for uid, item in self._known.items():
            if uid not in present:
                self._put(Change("DELETED", item))
        self._known = present
        self._version = listing.resource_version

    def _watch(self) -> None:
        """One round: until the server ends it. Leaves the newest resourceVersion behind."""
        query = [
            ("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", self._version),
            ("timeoutSeconds", str(int(ROUND_SECONDS))),
        ]  # fmt: skip
        one = self._subscription
        query += selectors(one.label_selector, one.field_selector)
        doing = f"watch {label(self._kind, None, self._namespace)}"
        with self._cluster.open(
            "GET", self._kind.path(self._namespace), query=query, read_timeout=SILENCE_SECONDS
        ) as response:
            self._response = response
            try:
                if self._stopped.is_set():
                    return
                if response.status != 200:
                    raise self._cluster.failure(response.status, response.read(), doing)
                self._succeeded()
                for line in lines(response):
                    if self._stopped.is_set():
                        return
                    self._take(line, doing)
            finally:
                self._response = None

    def _succeeded(self) -> None:
        self.trouble, self._failing_since, self._succeeded_once = None, None, True

    def _may_pass(self, error: UserError) -> bool:
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if isinstance(error, (UnreachableError, ServerFailingError)):
            return True
        return self._succeeded_once and time.monotonic() - self._failing_since < GRACE_SECONDS

    def _take(self, line: bytes, doing: str) -> None:
        try:
            event = json.loads(line)
            type_, item = event["type"], event["object"]
            if type_ == "ERROR":
                raise api_error(int(item.get("code") or 500), json.dumps(item).encode(), doing=doing)
            self._version = _version(item)
            if type_ == "BOOKMARK":
                return
            uid = _uid(item)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreachableError(f"something between here and the API server garbles watches ({doing})") from error
        if type_ == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = item
        self._put(Change(type_, item))


def _uid(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["uid"])


def _version(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["resourceVersion"])

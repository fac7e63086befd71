"""Follow the objects of one kind: list, watch from there, and list again when the watch expires.

A daemon thread keeps the last known objects and reports changes. After a restart of the server, a lost connection or an
expired resourceVersion it lists again, and reports the changes in between.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.api.api_server import lines
from rayllm_ctl.cluster.api.client import METADATA_ONLY, Cluster, selectors
from rayllm_ctl.cluster.api.errors import GoneError, ServerFailingError, UnreachableError, api_error
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.api_kinds import kind, label
from rayllm_ctl.model.kube.written import keep_times, keep_writers

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

ROUND_SECONDS = 240.0
"""How long the server keeps one watch open: below the five minutes after which load balancers cut idle connections."""

SILENCE_SECONDS = 90.0
"""A watch that sends nothing for this long is considered dead: bookmarks arrive about once a minute."""

GRACE_SECONDS = 30.0
"""How long requests for a readable kind may be denied: an API server that has just started denies requests."""

BACK_OFF = (0.2, 5.0)
"""Initial and maximum seconds between retries; doubled each time, with jitter."""


@dataclass(frozen=True)
class Change:
    """What happened to an object. `object` is its newest state; for DELETED, its last known state."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Mapping[str, Any]


@dataclass(frozen=True)
class Subscription:
    """The objects of one kind that are followed. metadata_only: without what they contain. writers: with the managers
    of their fields, and when these wrote them. kept: whether the Watch has the objects, for `objects`; who keeps them
    elsewhere spares the memory.
    """

    kind: str
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    writers: bool = False
    kept: bool = True


def as_followed(item: dict[str, Any], subscription: Subscription) -> dict[str, Any]:
    """An object without what nobody reads of it."""
    if subscription.metadata_only:  # the API server sends it as a PartialObjectMetadata
        named = {"apiVersion": kind(subscription.kind).api_version, "kind": subscription.kind}
        item = {**named, "metadata": item["metadata"]}
    return keep_writers(item) if subscription.writers else keep_times(item)


class News:
    """State shared by the threads. The condition guards it and the followers' objects."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.changes: list[tuple[Subscription, Change]] = []
        self.failure: UserError | None = None


class KindFollower:
    """The thread of one kind. `known` maps a uid to the object's newest state: a new list is compared with it.

    current: whether `known` receives every change; None before the first response.
    """

    def __init__(self, cluster: Cluster, subscription: Subscription, namespace: str | None, news: News) -> None:
        self.trouble: str | None = None
        self.listed = False
        self.current: bool | None = None
        self.known: dict[str, dict[str, Any]] = {}
        self._cluster = cluster
        self._kind = kind(subscription.kind)
        self._namespace = namespace
        self._subscription = subscription
        self._news = news
        self._version = ""
        self._succeeded_once = False
        self._failing_since: float | None = None
        self._stopped = threading.Event()
        self._response: BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{self._kind.plural}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.end()
        self.disconnect()

    def end(self) -> None:
        """Stop delivering events."""
        self._stopped.set()

    def disconnect(self) -> None:
        response = self._response
        if response is not None:
            # Closing would wait for the reading thread's lock; shutting the socket down wakes it.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                response.shutdown()

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            self._set_current(False)  # however it ended, no reader may keep waiting for it

    def _follow(self) -> None:
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
                self._set_current(False)
            except UserError as error:
                ends = not self._may_pass(error)
                self.trouble = error.message
                self._set_current(False, error if ends else None)
                if ends:
                    return
            # A round that ends at once counts as a failure, whatever the status.
            failures = failures + 1 if time.monotonic() - begun < BACK_OFF[1] else 0
            if failures:
                self._set_current(False)
                first, most = BACK_OFF
                # Clients that lost the same server must not reconnect simultaneously.
                self._stopped.wait(min(first * 2 ** (failures - 1), most) * random.uniform(0.5, 1.0))  # noqa: S311

    def _set_current(self, current: bool, failure: UserError | None = None) -> None:
        with self._news.condition:
            self.current = current
            if failure is not None and not self._stopped.is_set():
                self._news.failure = failure
            self._news.condition.notify_all()

    def _list(self) -> None:
        listing = self._cluster.listing(
            self._kind.name, self._namespace, label_selector=self._subscription.label_selector,
            field_selector=self._subscription.field_selector, metadata_only=self._subscription.metadata_only,
        )  # fmt: skip
        present = {_uid(item): as_followed(item, self._subscription) for item in listing.items}
        changes = []
        for uid, item in present.items():
            old = self.known.get(uid)
            if old is None:
                changes.append(Change("ADDED", item))
            elif _version(old) != _version(item):
                changes.append(Change("MODIFIED", item))
        changes += [Change("DELETED", item) for uid, item in self.known.items() if uid not in present]
        with self._news.condition:
            self.known = {uid: self._remembered(item) for uid, item in present.items()}
            self.listed = True
            self._tell(changes)
        self._version = listing.resource_version
        self._succeeded()

    def _remembered(self, item: dict[str, Any]) -> dict[str, Any]:
        """An object as the next list is compared with."""
        if self._subscription.kept:
            return item
        metadata = item["metadata"]
        named = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
        return {"apiVersion": item.get("apiVersion"), "kind": item.get("kind"), "metadata": named}

    def _tell(self, changes: Iterable[Change]) -> None:
        """Report changes, under the lock."""
        if not self._stopped.is_set():
            self._news.changes += [(self._subscription, change) for change in changes]
            self._news.condition.notify_all()

    def _watch(self) -> None:
        """One watch request, until the server ends it. Updates the newest resourceVersion."""
        query = [
            ("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", self._version),
            ("timeoutSeconds", str(int(ROUND_SECONDS))),
        ]  # fmt: skip
        subscription = self._subscription
        query += selectors(subscription.label_selector, subscription.field_selector)
        doing = f"watch {label(self._kind, None, self._namespace)}"
        with self._cluster.open(
            "GET", self._kind.path(self._namespace), query=query, read_timeout=SILENCE_SECONDS,
            accept=METADATA_ONLY if subscription.metadata_only else "application/json",
        ) as response:  # fmt: skip
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
        self._set_current(True)

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
            item = as_followed(item, self._subscription)
            uid = _uid(item)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreachableError(f"malformed watch event; a proxy may be altering responses ({doing})") from error
        with self._news.condition:
            if type_ == "DELETED":
                self.known.pop(uid, None)
            else:
                self.known[uid] = self._remembered(item)
            self._tell([Change(type_, item)])


def _uid(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["uid"])


def _version(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["resourceVersion"])

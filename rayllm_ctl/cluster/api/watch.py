"""Follow objects of several kinds, each in a thread of its own, with their changes merged."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.follower import Change, KindFollower, News, Subscription

LINGER_SECONDS = 0.1
"""How long unneeded connections stay open, which is cheaper than closing them at once."""


class Watch:
    """Changes of several kinds, merged. Use as a context manager: leaving it ends the threads.

    Raises, from `wait` and `drain`, the UserError that ended a thread: a right is missing, the kind is
    unknown. Temporary failures are retried; `trouble` describes the current one.
    """

    def __init__(self, cluster: Cluster, namespace: str | None) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._news = News()
        self._followers: dict[Subscription, KindFollower] = {}

    def follow(self, subscriptions: Iterable[Subscription]) -> None:
        """Follow exactly these subscriptions; existing ones continue. At first every object is reported as ADDED."""
        wanted = dict.fromkeys(subscriptions)
        for subscription in [old for old in self._followers if old not in wanted]:
            self._followers.pop(subscription).stop()
        for subscription in wanted:
            if subscription not in self._followers:
                follower = KindFollower(self._cluster, subscription, self.namespace, self._news)
                self._followers[subscription] = follower
                follower.start()

    def objects(self, subscription: Subscription) -> list[dict[str, Any]] | None:
        """The current objects of a subscription, once they were listed. Reading them acknowledges their changes so far,
        which are no longer reported. The objects belong to the Watch.

        None if it is not followed, or its watch is interrupted: then a request is needed.
        """
        follower = self._followers.get(subscription)
        if follower is None or not subscription.kept:
            return None
        with self._news.condition:
            self._news.condition.wait_for(lambda: follower.current is not None)
            if not follower.current:
                return None
            self._news.changes = [(source, change) for source, change in self._news.changes if source != subscription]
            return list(follower.known.values())

    @property
    def synced(self) -> bool:
        """Whether every kind that is followed has been listed."""
        return all(follower.listed for follower in self._followers.values())

    @property
    def trouble(self) -> str | None:
        """Why some changes may be late: the error of the last try, until a try succeeds."""
        return next((text for text in (follower.trouble for follower in self._followers.values()) if text), None)

    @property
    def interrupted(self) -> dict[str, str]:
        """By kind, why what is known of its objects may be out of date; without kinds that were never listed."""
        return {
            subscription.kind: follower.trouble or "the watch has ended"
            for subscription, follower in self._followers.items()
            if follower.listed and not follower.current
        }

    @property
    def connected(self) -> bool:
        """Whether any kind is watched now: whether the API server is there."""
        return any(follower.current for follower in self._followers.values())

    def wait(self, seconds: float) -> bool:
        """Block until something changed, at most `seconds`. `drain` returns the changes."""
        with self._news.condition:
            self._news.condition.wait_for(lambda: self._news.changes or self._news.failure, seconds)
            return bool(self._next())

    def drain(self) -> list[Change]:
        """All changes so far, without blocking."""
        with self._news.condition:
            changes, self._news.changes = self._next(), []
            return [change for _, change in changes]

    def reconnect(self) -> None:
        """Open the watches again: after a network outage their connections may be dead unnoticed."""
        self._disconnect()

    def close(self) -> None:
        """End the threads, and their connections a moment later: a finished command need not wait for them."""
        for follower in self._followers.values():
            follower.end()
        closing = threading.Timer(LINGER_SECONDS, self._disconnect)
        closing.daemon = True
        closing.start()

    def _disconnect(self) -> None:
        for follower in self._followers.values():
            follower.disconnect()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> list[tuple[Subscription, Change]]:
        if not self._news.changes and self._news.failure:
            raise self._news.failure
        return self._news.changes

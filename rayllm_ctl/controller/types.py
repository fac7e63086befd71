"""Between the loop and what it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

ChildKey = tuple[str, str]
"""Kind and name of a child, which is in the namespace of its owner."""


def child_key(item: Mapping[str, Any]) -> ChildKey:
    """Kind and name of an object."""
    return str(item["kind"]), str(item["metadata"]["name"])


@dataclass(frozen=True)
class Key:
    """An object that is reconciled: an LLMService or a BatchJob."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Scope:
    """What a controller is responsible for. namespaces: all if empty. offline: the hub is never asked."""

    namespaces: tuple[str, ...]
    offline: bool = True


class Reconciler(Protocol):
    """Brings the cluster closer to what an object asks for."""

    def reconcile(self, key: Key) -> float | None:
        """Seconds until the object is due again; None: when something changes. Raises UserError, and anything else."""


class Watched(Protocol):
    """What the watches know of the cluster. They tell of changed keys through the function they were made with."""

    def start(self) -> None:
        """List and watch. Raises UserError if a kind cannot be read at all; it may be called again then."""

    def pump(self, stop: threading.Event) -> None:
        """Take up changes until `stop`. Raises the UserError that ended a watch."""

    def close(self) -> None:
        """End the watches."""

    @property
    def synced(self) -> bool:
        """Whether everything was listed: before that, what is missing here may be there."""

    @property
    def trouble(self) -> str | None:
        """Why changes may be late; None while they are not."""

    def keys(self) -> Sequence[Key]:
        """The services and batch jobs that there are."""

    def get(self, key: Key) -> Mapping[str, Any] | None:
        """The object of a key."""


Parts = Callable[["Cluster", Scope, Callable[[Key], None]], tuple[Watched, Reconciler]]
"""Makes the caches of a scope, which tell a function of changed keys, and the reconciler that reads them."""

"""The steps of a request that have implementations of their own: keys, limits, queue, metrics.

The order of the pipeline: key, headers, body, model, fields, `Queue.enter`, tokens of the prompt, `Limits.admit`, the
application. So a request that is invalid or shed counts against no limit. All methods run on the event loop and
must not block it; those that are not coroutines do no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rayllm_ctl.serving.gateway.settings import RateLimits

Headers = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request: the key's name, never the key. Without keys everybody is `ANONYMOUS`."""

    name: str
    models: frozenset[str] | None = None
    """Ids of the models the key may use; None for all."""
    limits: RateLimits | None = None
    """Limits of this key; those that are None are those of the settings."""


ANONYMOUS = Client("")


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer in place of the application's; the gateway writes it in the form of OpenAI's errors."""

    status: int
    message: str
    code: str
    """A stable word for programs, such as `invalid_api_key`."""
    param: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Keys(Protocol):
    """API keys. There is no object of this kind where keys are disabled."""

    def authenticate(self, headers: Headers) -> Client | Rejection:
        """The client whose key the headers carry, or a rejection with status 401."""

    def close(self) -> None:
        """Stop watching; called when other settings took over."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request may proceed; `headers` (x-ratelimit-*) are for its response in either case."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    rejection: Rejection | None = None
    """With status 429 (503 if the store of the limits is unreachable and the settings deny then) and Retry-After."""
    charge: object = None
    """What was counted, for `Limits.withdraw`."""


class Limits(Protocol):
    """Rate limits per key and per address. There is no object of this kind where limits are disabled."""

    async def admit(self, client: Client, address: str, model: str, prompt_tokens: int) -> Admission:
        """Count one request and the tokens of its prompt, unless a limit is reached; all limits or none are charged."""

    def withdraw(self, admission: Admission) -> None:
        """Take back what was counted: the application answered with a status of 4xx. Written in the background."""

    def produced(self, client: Client, address: str, tokens: int) -> None:
        """Count tokens of an answer as they are produced, every few chunks of a stream; written in the background."""

    async def standing(self, client: Client | None, address: str) -> tuple[tuple[bytes, bytes], ...]:
        """The x-ratelimit-* headers of a response to a request that is not counted; None if the key was rejected."""

    async def close(self) -> None:
        """Write what is pending and close the connections; called when other settings took over."""


class Slot(Protocol):
    """The place of one request in the queue."""

    def taken(self) -> None:
        """A replica of the model accepted the request, which waits no more."""

    def leave(self, *, completed: bool) -> None:
        """Called exactly once; `completed` if the application's response ended, which the estimated wait is made of."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What `GET /queue` returns, over all ingress replicas and models."""

    pending: int
    """Requests that wait for a replica."""
    running: int
    replicas: int
    max_pending: int | None
    estimated_wait_seconds: float | None
    """None if nothing was measured yet."""


@dataclass(frozen=True, slots=True)
class Load:
    """What Serve reports of one model, over all of its replicas."""

    pending: int
    running: int
    replicas: int
    capacity: int
    """Requests that these replicas process at a time: the sum of their `max_ongoing_requests`."""


class LoadSource(Protocol):
    """Where a queue gets Serve's figures from; in tests a dictionary."""

    def load(self) -> Mapping[str, Load]:
        """The last report by model id; empty before the first."""

    def ingress_replicas(self) -> int:
        """Replicas of the ingress, which share `queue.maxPending`; at least 1."""


class Queue(Protocol):
    """Counts requests that wait, sheds load before more than `queue.maxPending` do. Always there, for GET /queue."""

    async def enter(self, model: str) -> Slot | Rejection:
        """A place, or a rejection with status 503 and Retry-After; `model` as in `LoadSource`, not an adapter."""

    async def figures(self) -> QueueFigures:
        """Current figures; may be as old as the last report of Serve."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter, or a histogram if it has boundaries (upper bounds of its buckets)."""

    name: str
    description: str
    labels: tuple[str, ...]
    boundaries: tuple[float, ...] = ()


class Metrics(Protocol):
    """Where figures go: ray.util.metrics in a pod, a dictionary in tests. Series are made on their first use."""

    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Add to a counter or observe a value; `labels` has a value for each of `metric.labels`, in their order."""

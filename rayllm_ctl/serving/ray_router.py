"""What Ray Serve's router in this process knows of a deployment. It is not part of Ray's public interface.

Public figures are too old to bound a queue: the controller gets those of handles every `metrics_interval_s` (10 s) and
averages them, the metrics are exported every 10 s (ray/serve/_private/router.py 2.60).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle


class Routed(NamedTuple):
    """Requests of this process for a deployment, and its replicas."""

    waiting: int
    """Not yet sent to a replica."""
    assigned: int
    """Sent to a replica that has not finished them, or not yet said that it has no capacity for them."""
    replicas: int
    capacity: int
    """The sum of the replicas' `max_ongoing_requests`."""


def run_here(handle: DeploymentHandle[Any]) -> None:
    """Let the router of a handle run on the event loop of the caller, which nothing must block.

    By default it has a thread of its own, in case that loop is blocked: two changes of threads for each request.
    """
    if not handle.is_initialized:
        handle._init(_run_router_in_separate_loop=False)


def routed(handle: DeploymentHandle[Any]) -> Routed:
    """As of now; zeros before the router has heard of the deployment."""
    router = _router(handle)
    if router is None:
        return Routed(0, 0, 0, 0)
    metrics = router._metrics_manager
    replicas = list(_replicas(router).values())
    return Routed(
        metrics.num_queued_requests,
        sum(metrics.num_requests_sent_to_replicas.values()),
        len(replicas),
        sum(replica.max_ongoing_requests for replica in replicas),
    )


def replicas(handle: DeploymentHandle[Any]) -> int:
    """How many replicas the deployment has that run."""
    router = _router(handle)
    return len(_replicas(router)) if router else 0


class Call:
    """A handle for one request, which knows its last response.

    taken: is called when a replica accepts the request. Its having been sent says little: where several ingresses send
    to one replica, each finds out that all of its places are taken by being turned away.
    """

    def __init__(self, handle: Any, taken: Callable[[], None] | None = None) -> None:
        self._handle = self._last = handle
        self._taken = taken
        self._response: Any = None

    def options(self, **options: Any) -> Call:
        """The same with other options."""
        self._last = self._last.options(**options)
        return self

    def __getattr__(self, method: str) -> Call:
        return self.options(method_name=method)

    def remote(self, *args: Any) -> Any:
        """Send the request."""
        self._response = self._last.remote(*args)
        if self._taken is not None:
            self._response._replica_result_future.add_done_callback(self._assigned)
        return self._response

    def _assigned(self, future: Any) -> None:
        if self._taken is not None and not future.cancelled() and future.exception() is None:
            self._taken()

    def avoid(self) -> None:
        """Send nothing more to the replica that took the request, until Serve says again which replicas there are."""
        router, result = _router(self._handle), getattr(self._response, "_replica_result", None)
        if router is None or result is None:
            return
        actor = result.to_object_ref_gen()._generator_ref.task_id().actor_id()
        for name, replica in list(_replicas(router).items()):
            if replica.actor_id == actor:
                router.request_router.on_replica_actor_died(name)


def _router(handle: DeploymentHandle[Any]) -> Any:
    # The handle's router is one in another thread, or on the loop of the caller itself.
    return getattr(handle._router, "_asyncio_router", None)


def _replicas(router: Any) -> dict[Any, Any]:
    known = router.request_router
    return known.curr_replicas if known is not None else {}

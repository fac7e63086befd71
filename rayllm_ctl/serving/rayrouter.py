"""What Ray Serve's router in this process knows of a deployment. It is not part of Ray's public interface.

Public figures are too old to bound a queue: the controller gets those of handles every `metrics_interval_s` (10 s) and
averages them, the metrics are exported every 10 s (ray/serve/_private/router.py 2.60).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle


class Routed(NamedTuple):
    """Requests of this process for a deployment, and its replicas."""

    waiting: int
    """Not yet sent to a replica."""
    assigned: int
    """Sent to a replica that has not finished them."""
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


def assigned(handle: DeploymentHandle[Any]) -> int:
    """`routed(handle).assigned`, for the path of every request."""
    router = _router(handle)
    return sum(router._metrics_manager.num_requests_sent_to_replicas.values()) if router else 0


def replicas(handle: DeploymentHandle[Any]) -> int:
    """How many replicas the deployment has that run."""
    router = _router(handle)
    return len(_replicas(router)) if router else 0


def _router(handle: DeploymentHandle[Any]) -> Any:
    # The handle's router is one in another thread, or on the loop of the caller itself.
    return getattr(handle._router, "_asyncio_router", None)


def _replicas(router: Any) -> dict[Any, Any]:
    known = router.request_router
    return known.curr_replicas if known is not None else {}

"""What the two modes take: Ray Serve LLM on a RayService, or vLLM's own server on a RayCluster.

A RayCluster has no autoscaler here: nothing on it knows how many requests are waiting, so replicas are a fixed number.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.problems import Problem
from rayllm_ctl.model.service import LLMService, Replicas

_SCALING = {
    "targetOngoingRequests": "target_ongoing_requests",
    "upscaleDelay": "upscale_delay",
    "downscaleDelay": "downscale_delay",
    "lookBackPeriod": "look_back_period",
}
"""Fields of spec.replicas that only Ray Serve's autoscaler reads."""

_OTHER_MODE = "spec.mode rayservice (--kind rayservice) scales with the load"


def mode_problems(service: LLMService) -> Iterator[Problem]:
    """What the mode of `service` does not support."""
    if service.mode == "raycluster":
        yield from _fixed(service.replicas)
        tensor = service.parallelism.tensor
        if service.accelerator.kind == "cpu" and tensor is not None and tensor > 1:
            yield Problem(
                ("spec", "parallelism", "tensor"),
                f"must be 1 for CPU services in mode raycluster, not {tensor}: "
                "vLLM's Ray executor does not support CPUs",
            )


def _fixed(replicas: Replicas) -> Iterator[Problem]:
    at = ("spec", "replicas")
    if replicas.min == 0:
        yield Problem(
            (*at, "min"),
            "must be at least 1 in mode raycluster: nothing would start a replica when a request arrives",
            _OTHER_MODE,
        )
    elif replicas.autoscaled:
        yield Problem(
            (*at, "max"),
            f"must equal spec.replicas.min ({replicas.min}) in mode raycluster, not {replicas.max}: "
            "no autoscaler knows its load",
            f"--replicas {replicas.max}; {_OTHER_MODE}",
        )
    for name, attribute in _SCALING.items():
        if getattr(replicas, attribute) is not None:
            yield Problem((*at, name), "does not apply to mode raycluster, which has no autoscaler", _OTHER_MODE)

"""Outages that last until the test ends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness import Bench

_FINALIZER = "e2e.rayllm.io/outage"


@contextmanager
def lost(bench: Bench, pod: str) -> Iterator[None]:
    """Delete a pod, which has ended when the block begins. KubeRay replaces it when it is gone, at the block's end."""
    _set_finalizers(bench, pod, [_FINALIZER])
    try:
        bench.kubectl("delete", "pod", pod, "-n", bench.namespace, "--wait=false")
        bench.wait(f"{pod} has ended", lambda: _has_ended(bench, pod), timeout=300)
        yield
    finally:
        _set_finalizers(bench, pod, None)


def _set_finalizers(bench: Bench, pod: str, finalizers: list[str] | None) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    bench.kubectl("patch", "pod", pod, "-n", bench.namespace, "--type=merge", "-p", patch)


def _has_ended(bench: Bench, pod: str) -> bool:
    status = bench.get("pod", pod)["status"]
    return all("terminated" in box["state"] for box in status["containerStatuses"])

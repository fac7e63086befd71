"""Outages that last until the test ends them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness import Bench, Object
from e2e.simulated import CONTAINER_SECURITY

_NAME = "no-new-pods"
_QUOTA: Object = {
    "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": _NAME}, "spec": {"hard": {"pods": "0"}},
}  # fmt: skip
_POD: Object = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "refused"},
    "spec": {
        "containers": [{"name": "main", "image": "example.com/refused:1", "securityContext": CONTAINER_SECURITY}],
    },
}  # fmt: skip


@contextmanager
def no_new_pods(bench: Bench) -> Iterator[None]:
    """While the block runs, no pod is made in the namespace: one that is deleted is missing until the end of it."""
    bench.apply(_QUOTA)
    bench.wait("the quota is enforced", lambda: "exceeded quota" in _refusal(bench), timeout=60)
    try:
        yield
    finally:
        bench.kubectl("delete", "resourcequota", _NAME, "-n", bench.namespace)
        bench.wait("pods are made again", lambda: not _refusal(bench), timeout=60)
        # KubeRay tries again later and later; a change of the object lets it try at once.
        retry = f"e2e/retry={secrets.token_hex(4)}"
        bench.kubectl("annotate", "rayclusters", "--all", retry, "--overwrite", "-n", bench.namespace)


def _refusal(bench: Bench) -> str:
    """Why the API server rejects a pod; empty where it accepts it."""
    args = ("create", "--dry-run=server", "-n", bench.namespace, "-f", "-")
    try:
        bench.kubectl(*args, input_text=json.dumps(_POD))
    except AssertionError as error:
        return str(error)
    return ""

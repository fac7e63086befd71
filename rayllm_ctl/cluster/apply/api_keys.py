"""The Secret with the API keys of a gateway: add and remove single entries, safe with concurrent changes."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, NotFoundError
from rayllm_ctl.errors import ConflictError, UserError
from rayllm_ctl.model.kube.labels import KEYS_CHANGED, MANAGED_BY, MANAGER, SERVICE

_TRIES = 20
"""Tries of a change while other clients change the Secret."""

_PAUSE = 0.2
"""Maximum random seconds between two tries, so that clients do not collide repeatedly."""

_MERGE = "application/merge-patch+json"


def read_secret(cluster: Cluster, name: str, namespace: str) -> dict[str, Any] | None:
    """The Secret; None if there is none."""
    try:
        return cluster.get("Secret", name, namespace)
    except NotFoundError as error:
        if error.about:
            return None
        raise


def add_entry(cluster: Cluster, name: str, namespace: str, entry: str, value: str) -> bool:
    """Add an entry to the Secret; False if it has one of that name. Creates the Secret if there is none."""
    data = {entry: base64.b64encode(value.encode()).decode()}

    def change(secret: Mapping[str, Any] | None) -> bool:
        if secret is None:
            metadata = {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            cluster.create(body, "Secret", namespace)
            return True
        if entry in (secret.get("data") or {}):
            return False
        _patch(cluster, secret, data)
        return True

    return _changed(cluster, name, namespace, change)


def remove_entry(cluster: Cluster, name: str, namespace: str, entry: str) -> bool:
    """Remove an entry from the Secret; False if there is none of that name."""

    def change(secret: Mapping[str, Any] | None) -> bool:
        if secret is None or entry not in (secret.get("data") or {}):
            return False
        _patch(cluster, secret, {entry: None})
        return True

    return _changed(cluster, name, namespace, change)


def touch_pods(cluster: Cluster, secret: str, namespace: str) -> int:
    """Change an annotation of the pods that mount `secret`: their kubelets then refresh it at once.

    Returns the number of pods that mount it. Raises ForbiddenError if the user may not list or patch pods.
    """
    body = {"metadata": {"annotations": {KEYS_CHANGED: datetime.now(UTC).isoformat()}}}
    pods = [pod for pod in cluster.list("Pod", namespace, label_selector=SERVICE) if _mounts(pod, secret)]
    for pod in pods:
        try:
            cluster.patch("Pod", pod["metadata"]["name"], namespace, body, content_type=_MERGE)
        except NotFoundError:
            continue  # a deleted pod reads nothing
    return len(pods)


def _mounts(pod: Mapping[str, Any], secret: str) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)


def _patch(cluster: Cluster, secret: Mapping[str, Any], data: Mapping[str, str | None]) -> None:
    """Change entries of the Secret, if it has not changed since it was read."""
    metadata = secret["metadata"]
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "data": data}
    cluster.patch("Secret", metadata["name"], metadata["namespace"], body, content_type=_MERGE)


def _changed(cluster: Cluster, name: str, namespace: str, change: Callable[[Mapping[str, Any] | None], bool]) -> bool:
    for _ in range(_TRIES):
        secret = read_secret(cluster, name, namespace)
        if secret is not None and secret.get("immutable"):
            raise UserError(
                f"Secret {namespace}/{name} is immutable: no key can be added or removed",
                hint=f"kubectl delete secret {name} -n {namespace}    # and create it again",
            )
        try:
            return change(secret)
        except (ForbiddenError, NotFoundError):
            raise
        except ApiError as error:
            if error.status != 409:
                raise
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311  nothing secret
    raise ConflictError(f"Secret {namespace}/{name} is being modified concurrently", hint="run the command again")

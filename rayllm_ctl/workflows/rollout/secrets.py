"""The Secrets of a gateway: check that they exist before it is deployed, and create the password of Redis."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError
from rayllm_ctl.cluster.apply.api_keys import add_entry, read_secret
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Applied, Checked
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.spec.gateway import REDIS_PASSWORD
from rayllm_ctl.model.spec.pod_options import KeyOf
from rayllm_ctl.model.workload import Right, Rights

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def rights(deployment: Deployment) -> Rights:
    """Rights for the checks below, and for the Secret that is created."""
    made = _is_made(deployment)
    asked = made or _password(deployment) is not None or _keys(deployment) is not None
    return Rights(
        needed=(Right("get", "Secret"), Right("create", "Secret")) if made else (),
        display=(Right("get", "Secret"),) if asked else (),
    )


def check_secrets(cluster: Cluster, deployment: Deployment, namespace: str) -> Iterator[Checked]:
    """Check that the Secrets exist. Raises UserError if pods could not start without one."""
    keys, password = _keys(deployment), _password(deployment)
    try:
        if password is not None and not _is_made(deployment):
            _require(read_secret(cluster, password.name, namespace), password, namespace)
        stored = read_secret(cluster, keys, namespace) if keys is not None else None
    except ForbiddenError as error:
        yield Checked(
            "Secrets", None, f"whether the gateway's Secrets exist is unknown: not permitted to {error.right}"
        )
        return
    if keys is not None and not (stored or {}).get("data"):
        problem = "does not exist" if stored is None else "has no keys"
        command = f"rayllm-ctl keys create --secret {keys} --key-name NAME -n {namespace}"
        yield Checked(
            "API keys", None, f"Secret {namespace}/{keys} {problem}: all requests are rejected until {command}"
        )


def create_password(cluster: Cluster, deployment: Deployment, namespace: str) -> Iterator[Applied]:
    """Create a random password for the managed Redis, unless it has one."""
    password = _password(deployment)
    if password is not None and _is_made(deployment):
        made = add_entry(cluster, password.name, namespace, password.key, secrets.token_urlsafe(32))
        yield Applied("Secret", password.name, namespace, "created" if made else "unchanged")


def make_password(cluster: Cluster, deployment: Deployment, namespace: str) -> None:
    """As create_password, without reading a Secret: one that is there stays."""
    password = _password(deployment)
    if password is None or not _is_made(deployment):
        return
    value = base64.b64encode(secrets.token_urlsafe(32).encode()).decode()
    body = {"metadata": {"name": password.name}, "type": "Opaque", "data": {password.key: value}}
    try:
        cluster.create({"apiVersion": "v1", "kind": "Secret", **body}, "Secret", namespace)
    except ApiError as error:
        if error.status != 409:
            raise


def delete_password(cluster: Cluster, deployment: Deployment, namespace: str) -> Iterator[Applied]:
    """Delete the Secret of `create_password`, which the deletion of a service keeps."""
    password = _password(deployment)
    if password is None or not makes_password(deployment):
        return
    stored = read_secret(cluster, password.name, namespace)
    if stored is not None:
        cluster.delete("Secret", password.name, namespace, uid=stored["metadata"]["uid"])
        yield Applied("Secret", password.name, namespace, "deleted")


def makes_password(deployment: Deployment) -> bool:
    """Whether `create_password` creates a Secret."""
    return _password(deployment) is not None and _is_made(deployment)


def _is_made(deployment: Deployment) -> bool:
    """Whether the Secret with the password is the default one of a managed Redis."""
    redis = deployment.redis
    return redis is not None and redis.password.name == redis.name


def _keys(deployment: Deployment) -> str | None:
    required = deployment.gateway is not None and deployment.gateway["keys"] is not None
    return next((group.pod.keys_secret for group in deployment.worker_groups), None) if required else None


def _password(deployment: Deployment) -> KeyOf | None:
    variables = (variable for group in deployment.worker_groups for variable in group.pod.env)
    return next((variable.secret for variable in variables if variable.name == REDIS_PASSWORD), None)


def _require(secret: dict[str, object] | None, password: KeyOf, namespace: str) -> None:
    data = (secret or {}).get("data")
    if secret is not None and isinstance(data, dict) and password.key in data:
        return
    lacks = "does not exist" if secret is None else f"has no key {password.key}"
    raise UserError(
        f"Secret {namespace}/{password.name} with the password of the gateway's Redis {lacks}: no pod could start",
        hint=f"kubectl create secret generic {password.name} -n {namespace} --from-file={password.key}=FILE",
    )

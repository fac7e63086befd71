"""The objects that control access to a live service and the permissions of its pods, read in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.api.service_proxy import ServiceError, request_json
from rayllm_ctl.cluster.ray.gateway import gateway_of
from rayllm_ctl.cluster.snapshot.collector import tidy
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.rbac import binds, is_default
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import WorkloadKind

_IN_NAMESPACE = ("Service", "Ingress", "HTTPRoute", "NetworkPolicy", "RoleBinding")
_KEY_TIMEOUT = 5.0
"""Seconds for the API of the service to answer whether it requires a key."""


def collect_security(cluster: Cluster, kind: WorkloadKind, workload: Mapping[str, Any]) -> Snapshot:
    """The object of a service with its RayClusters and pods, and related objects of its namespace.

    Raises ForbiddenError if RayClusters or pods cannot be read.
    """
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    reader = Reader(cluster)
    with Tasks() as tasks:
        beside = [tasks.submit(reader.list, what, namespace) for what in _IN_NAMESPACE]
        beside.append(tasks.submit(reader.list, "ClusterRoleBinding"))
        clusters = [workload]
        if not kind.is_cluster:
            clusters = [*cluster.list(kuberay.RAY_CLUSTER, namespace, label_selector=kind.made_for(name))]
        selector = kuberay.part_of(ray_cluster["metadata"]["name"] for ray_cluster in clusters)
        pods = cluster.list("Pod", namespace, label_selector=selector) if selector else []
        around = [item for future in beside for item in future.result()]
        accounts = {str((pod.get("spec") or {}).get("serviceAccountName") or "default") for pod in pods}
        bindings = [binding for binding in around if _concerns(binding, accounts, namespace)]
        roles = [
            role
            for read_roles in tasks.map(lambda reference: reader.get(*reference), _roles(bindings))
            for role in read_roles
        ]
    kept = [item for item in around if not item["kind"].endswith("RoleBinding")]
    objects: Objects = [dict(workload), *map(dict, clusters), *pods, *kept, *bindings, *roles]
    return Snapshot(
        tuple(tidy(objects)), datetime.now(UTC), notes=tuple(sorted(reader.notes)), unread=frozenset(reader.unread)
    )


def key_required(cluster: Cluster, kind: WorkloadKind, workload: Mapping[str, Any]) -> bool | None:
    """Whether the OpenAI API of a service requires an API key; None if unknown."""
    gateway = None if kind.is_cluster else gateway_of(workload)
    if gateway is not None:
        return bool(gateway.config.get("keys"))
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    try:
        request_json(
            cluster, namespace, kind.serve_service(name), kuberay.SERVE, "/v1/models", timeout=_KEY_TIMEOUT
        )  # fmt: skip
    except ServiceError as error:
        return True if error.status == 401 else None
    except UserError:
        return None
    return False


def _concerns(binding: Mapping[str, Any], accounts: Iterable[str], namespace: str) -> bool:
    """Whether an object binds a role to one of the accounts, except for groups of all accounts."""
    if not binding["kind"].endswith("RoleBinding") or is_default(binding):
        return False
    return any(binds(binding, account, namespace) for account in accounts)


def _roles(bindings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str | None]]:
    """Kind, name and namespace of the roles that bindings name, each once."""
    named: dict[tuple[str, str, str | None], None] = {}
    for binding in bindings:
        reference = binding["roleRef"]
        namespace = binding["metadata"].get("namespace") if reference["kind"] == "Role" else None
        named[reference["kind"], reference["name"], namespace] = None
    yield from named

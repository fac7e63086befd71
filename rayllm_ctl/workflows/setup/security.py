"""`check --security`: the access to a live service, and the permissions of its pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.services import find, not_found
from rayllm_ctl.cluster.preflight.versions import kuberay_version
from rayllm_ctl.cluster.snapshot.security import collect_security, key_required
from rayllm_ctl.health.security import read_checked_service, security_checks
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.workload import WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def check_security(cluster: Cluster, name: str, namespace: str) -> Iterator[Check]:
    """The checks of the RayService or RayCluster `name`, regardless of who created it.

    Raises NotFoundError if there is none, and ClusterError if it or its pods may not be read.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("security")):
        kind, workload = _find(cluster, name, namespace)
        snapshot = collect_security(cluster, kind, workload)
    required = key_required(cluster, kind, workload)
    yield from security_checks(read_checked_service(snapshot, workload, kuberay_version(cluster), required))


def _find(cluster: Cluster, name: str, namespace: str) -> tuple[WorkloadKind, dict[str, Any]]:
    for kind in WORKLOADS.values():
        service = find(cluster, kind, name, namespace)
        if service is not None:
            return kind, service
    raise not_found(cluster, RAY_SERVICE, name, namespace)

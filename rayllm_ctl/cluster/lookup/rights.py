"""Check of required rights before anything is attempted."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.permissions import missing, not_permitted
from rayllm_ctl.model.workload import Right


def require_rights(cluster: Cluster, namespace: str, rights: Sequence[Right]) -> None:
    """Raise ClusterError with all missing rights unless the user has `rights` in `namespace`."""
    lacking = missing(cluster, namespace, rights)
    if lacking:
        raise not_permitted(cluster, namespace, lacking)

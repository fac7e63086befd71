"""The Serve configuration of a live service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.services import require
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.serveconfig.applied import FIELD, applied_config

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

SERVE_CONFIG_RIGHTS = Rights(needed=(Right("get", RAY_SERVICE.name),), display=(Right("list", RAY_SERVICE.name),))


def live_config(cluster: Cluster, name: str, namespace: str) -> Any:
    """The spec.serveConfigV2 of the RayService as plain data.

    Raises NotFoundError with the nearest name if there is no such service, UserError if it has no configuration.
    """
    with explained(cluster, namespace, SERVE_CONFIG_RIGHTS):
        service = require(cluster, RAY_SERVICE, name, namespace)
    config = applied_config(service)
    if not config:
        raise UserError(f"service {namespace}/{name} has no Serve configuration: its spec.{FIELD} is empty")
    return config

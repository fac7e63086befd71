"""Ray's dashboard of a service, at a port of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.forward.dashboard import Forwarder
from rayllm_ctl.cluster.ray.dashboard import dashboard_of
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.workflows.services import require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.forward.dashboard import Forwarder


def forwarder(cluster: Cluster, name: str, namespace: str, port: int) -> Forwarder:
    """A server on loopback in front of the dashboard of a service; the caller runs and closes it. port 0: a free one.

    During an upgrade it is that of the RayCluster that serves. Raises UserError while there is no RayCluster or its
    dashboard does not answer, NotFoundError with the nearest name if there is no such service.
    """
    kind, item = require_service(cluster, name, namespace, RAY_SERVICE.rights_for("dashboard"))
    with explained(cluster, namespace, kind.rights_for("dashboard")):
        clusters = kind.clusters_of(item)
        if not clusters:
            raise UserError(
                f"service {namespace}/{name} has no RayCluster yet", hint=f"rayllm-ctl status {name} -n {namespace}"
            )
        dashboard = dashboard_of(cluster, cluster.get("RayCluster", clusters[0], namespace))
        try:
            dashboard.json("/api/version", doing=f"reach the dashboard of {name}")
        except UserError as error:
            hint = error.hints or (f"rayllm-ctl status {name} -n {namespace}",)
            raise UserError(
                f"the dashboard of {name} does not answer: {error.message}", hint=hint, exit_code=error.exit_code
            ) from error
    return Forwarder(dashboard, port)

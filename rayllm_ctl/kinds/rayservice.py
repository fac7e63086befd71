"""RayService: a model behind Ray Serve, which KubeRay upgrades by replacing its RayCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds.common import EXPOSURE, FORGET, FORWARDING, HISTORY, OPERATOR, OVERVIEW, REASONS, RECORD, SECURITY
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.model.observed.changes import Explanation, Running
    from rayllm_ctl.model.observed.external import ExternalAddress
    from rayllm_ctl.model.observed.health import Health, Object, Snapshot

_KIND = "RayService"

_PARTS = (
    Right("list", "RayCluster"),
    Right("list", "Pod"),
    Right("list", "EndpointSlice"),
)

_REASONS = (*REASONS, Right("get", "Service", "proxy"))
"""Serve's own state as well."""


def _clusters_of(item: Object) -> tuple[str, ...]:
    """The active and the pending RayCluster; each may be missing."""
    status = item.get("status") or {}
    parts = (status.get(key) or {} for key in ("activeServiceStatus", "pendingServiceStatus"))
    return tuple(part["rayClusterName"] for part in parts if part.get("rayClusterName"))


def _diagnose(snapshot: Snapshot, name: str, namespace: str) -> Health:
    # Imported on use: the rules take longer to import than `chat` and `delete` take to run.
    from rayllm_ctl.health import diagnose

    return diagnose(snapshot, name, namespace, _replicas_of)


def _replicas_of(item: Object) -> tuple[int, int] | None:
    """Replicas of the models of a RayService that rayllm-ctl has rendered: at first, and at most."""
    from rayllm_ctl.serveconfig import applied, bounds

    try:
        found = bounds.models(applied.applied_config(item))
    except (UserError, ValueError, TypeError, AttributeError):
        return None  # the user's own application: its replicas are known after Serve has read it
    return (sum(one.first for one in found), sum(one.bounds.high for one in found)) if found else None


def _external(snapshot: Snapshot, name: str, namespace: str) -> tuple[ExternalAddress, ...]:
    from rayllm_ctl.health.context import ServiceContext
    from rayllm_ctl.health.external import external_addresses

    return external_addresses(ServiceContext(snapshot, name, namespace))


def _explain(before: Object, after: Object, running: Running) -> Explanation:
    from rayllm_ctl.changes.rayservice import explain_rayservice

    return explain_rayservice(before, after, running)


RAY_SERVICE = WorkloadKind(
    name=_KIND,
    rights={
        "apply": Rights(
            needed=(Right("get", _KIND), Right("create", _KIND), Right("patch", _KIND)),
            display=(
                Right("get", "RayCluster"), Right("get", "Namespace"), *OPERATOR, Right("list", "Node"),
                Right("get", "Service", "proxy"),
            ),
        ),
        "bounds": Rights(
            needed=(Right("get", "RayCluster"), Right("patch", "RayCluster"), Right("list", "Pod")),
            display=(Right("get", "Service"),),
        ),
        "follow": Rights(
            needed=(
                *(Right(verb, _KIND) for verb in ("get", "list", "watch")),
                *_PARTS,
                *(Right("watch", right.kind) for right in _PARTS),
            ),
            display=_REASONS,
        ),
        "record": RECORD,
        "history": HISTORY,
        "version": Rights(needed=(Right("get", _KIND),), display=(Right("list", _KIND), Right("get", "ConfigMap"))),
        "restart": Rights(
            needed=(Right("get", _KIND), Right("patch", _KIND)),
            # Patching and deleting a RayCluster are for a second one that does not fit next to the first.
            display=(*(Right(verb, "RayCluster") for verb in ("get", "patch", "delete")), *HISTORY.needed),
        ),
        "suspend": Rights(
            needed=(Right("get", _KIND), Right("patch", _KIND)),
            display=(*OPERATOR, *HISTORY.needed),
        ),
        "status": Rights(needed=(Right("get", _KIND),), display=(*_PARTS, *_REASONS)),
        "list": Rights(needed=(Right("list", _KIND),), display=(*_PARTS, *OVERVIEW)),
        "events": Rights(
            needed=(Right("get", _KIND), Right("list", "Event")),
            display=tuple(right for right in (*_PARTS, *_REASONS) if right != Right("list", "Event")),
        ),
        "follow-events": Rights(needed=(Right("watch", "Event"),)),
        "logs": Rights(
            needed=(
                Right("get", _KIND), Right("get", "RayCluster"), Right("list", "Pod"), Right("get", "Service", "proxy"),
            ),
            display=(
                Right("get", "Pod", "log"), Right("get", "Secret"), Right("list", _KIND), Right("get", "Namespace"),
                *OPERATOR,
            ),
        ),
        "endpoint": Rights(
            needed=(Right("get", "Service", "proxy"),),
            display=(Right("get", _KIND), Right("list", _KIND), Right("get", "Namespace"), *EXPOSURE),
        ),
        "chat": Rights(
            needed=(Right("get", "Service", "proxy"), Right("create", "Service", "proxy")),
            # Forwarding a port is for services that require API keys.
            display=(
                Right("get", _KIND), Right("list", _KIND), Right("get", "Namespace"), *FORWARDING,
            ),
        ),
        "port-forward": Rights(
            needed=(Right("get", _KIND), *FORWARDING), display=(Right("list", _KIND), Right("get", "Namespace")),
        ),
        "dashboard": Rights(
            needed=(Right("get", _KIND), Right("get", "RayCluster"), Right("get", "Service", "proxy")),
            display=(Right("create", "Service", "proxy"), Right("get", "Secret")),
        ),
        "security": Rights(needed=(Right("get", "RayService"),)) | SECURITY,
        "top": Rights(
            needed=(
                Right("get", _KIND), Right("get", "RayCluster"), Right("get", "Service", "proxy"),
                Right("get", "Pod", "proxy"),
            ),
            display=(Right("list", _KIND), Right("get", "Namespace"), Right("list", "Pod"), Right("get", "Secret")),
        ),
        "delete": Rights(
            needed=(Right("get", _KIND), Right("delete", _KIND), Right("list", "RayCluster"), Right("list", "Pod")),
            # The last five stop replicas before their pods: see cluster.apply.replicas.
            display=(
                Right("list", _KIND), Right("get", "Namespace"), *FORGET, Right("patch", _KIND),
                Right("get", "RayCluster"), Right("get", "Service", "proxy"), Right("get", "Secret"),
                Right("delete", "Pod"),
            ),
        ),
    },
    is_service=lambda _: True,
    clusters_of=_clusters_of,
    made_for=kuberay.made_for,
    serve_service=kuberay.serve_service,
    diagnose=_diagnose,
    external=_external,
    explain=_explain,
)  # fmt: skip

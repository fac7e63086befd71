"""RayService: a model behind Ray Serve, which KubeRay upgrades by replacing its RayCluster."""

from __future__ import annotations

from rayllm_ctl.model import kuberay
from rayllm_ctl.model.changes import Explanation, Running
from rayllm_ctl.model.health import Health, Object, Snapshot
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind

_KIND = "RayService"

_OPERATOR = (Right("list", "Deployment", everywhere=True), Right("list", "Pod", everywhere=True))
"""The operator runs in a namespace that is not known beforehand."""

_PARTS = (
    Right("list", "RayCluster"),
    Right("list", "Pod"),
    Right("list", "EndpointSlice"),
)

_REASONS = (
    Right("list", "Service"),
    Right("list", "Event"),
    Right("get", "Service", "proxy"),
    Right("get", "Pod", "log"),
    Right("get", "PersistentVolumeClaim"),
    Right("list", "ResourceQuota"),
    Right("list", "LimitRange"),
    Right("get", "Namespace"),
    Right("get", "Node"),
    Right("list", "Node"),
    *_OPERATOR,
)
"""Serve's own state, and what explains why something does not start."""


def _clusters_of(item: Object) -> tuple[str, ...]:
    """The active and the pending RayCluster; each may be missing."""
    status = item.get("status") or {}
    parts = (status.get(key) or {} for key in ("activeServiceStatus", "pendingServiceStatus"))
    return tuple(part["rayClusterName"] for part in parts if part.get("rayClusterName"))


def _diagnose(snapshot: Snapshot, name: str, namespace: str) -> Health:
    # Imported on use: the rules take longer to import than `chat` and `delete` take to run.
    from rayllm_ctl.health import diagnose

    return diagnose(snapshot, name, namespace)


def _explain(before: Object, after: Object, running: Running) -> Explanation:
    from rayllm_ctl.changes.rayservice import explain

    return explain(before, after, running)


RAY_SERVICE = WorkloadKind(
    name=_KIND,
    rights={
        "apply": Rights(
            needed=(Right("get", _KIND), Right("create", _KIND), Right("patch", _KIND)),
            display=(Right("get", "Namespace"), *_OPERATOR, Right("list", "Node")),
        ),
        "bounds": Rights(
            needed=(Right("get", "RayCluster"), Right("patch", "RayCluster")), display=(Right("get", "Service"),)
        ),
        "follow": Rights(
            needed=(
                *(Right(verb, _KIND) for verb in ("get", "list", "watch")),
                *_PARTS,
                *(Right("watch", right.kind) for right in _PARTS),
            ),
            display=_REASONS,
        ),
        "status": Rights(needed=(Right("get", _KIND),), display=(*_PARTS, *_REASONS)),
        "list": Rights(needed=(Right("list", _KIND),), display=(*_PARTS, Right("list", "Event"), *_OPERATOR)),
        "chat": Rights(
            needed=(Right("get", "Service", "proxy"), Right("create", "Service", "proxy")),
            display=(Right("get", _KIND), Right("list", _KIND)),
        ),
        "delete": Rights(
            needed=(Right("get", _KIND), Right("delete", _KIND), Right("list", "RayCluster"), Right("list", "Pod")),
            display=(Right("list", _KIND),),
        ),
    },
    clusters_of=_clusters_of,
    made_for=kuberay.made_for,
    serve_service=kuberay.serve_service,
    diagnose=_diagnose,
    explain=_explain,
)  # fmt: skip

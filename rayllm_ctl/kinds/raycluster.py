"""RayCluster: a model behind vLLM's own server, which runs in the pods of a worker group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayllm_ctl.kinds.common import (
    EXPOSURE,
    FORGET,
    FORWARDING,
    HISTORY,
    OPERATOR,
    OVERVIEW,
    REASONS,
    RECORD,
    SECURITY,
)  # fmt: skip
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind

if TYPE_CHECKING:
    from rayllm_ctl.model.observed.changes import Explanation, Running
    from rayllm_ctl.model.observed.external import ExternalAddress
    from rayllm_ctl.model.observed.health import Health, Object, Snapshot

_KIND = kuberay.RAY_CLUSTER

_PARTS = (Right("list", "Pod"), Right("list", "EndpointSlice"))


def _diagnose(snapshot: Snapshot, name: str, namespace: str) -> Health:
    # Imported on use, as for RayService.
    from rayllm_ctl.health import diagnose_cluster

    return diagnose_cluster(snapshot, name, namespace)


def _external(snapshot: Snapshot, name: str, namespace: str) -> tuple[ExternalAddress, ...]:
    from rayllm_ctl.health.clustercontext import ClusterContext
    from rayllm_ctl.health.external import external_addresses

    return external_addresses(ClusterContext(snapshot, name, namespace))


def _explain(before: Object, after: Object, running: Running) -> Explanation:
    from rayllm_ctl.changes.raycluster import explain_raycluster

    return explain_raycluster(before, after, running)


def _is_service(item: Object) -> bool:
    """Whether rayllm-ctl rendered it: those of KubeRay have the label of their owner, others no model."""
    metadata = item["metadata"]
    owned = kuberay.ORIGIN_KIND in (metadata.get("labels") or {})
    return not owned and MODEL in (metadata.get("annotations") or {})


def _clusters_of(item: Object) -> tuple[str, ...]:
    return (item["metadata"]["name"],)


RAY_CLUSTER = WorkloadKind(
    name=_KIND,
    rights={
        "apply": Rights(
            needed=(Right("get", _KIND), Right("create", _KIND), Right("patch", _KIND)),
            display=(
                Right("get", "RayService"), Right("get", "Namespace"), *OPERATOR, Right("list", "Node"),
                Right("get", "Service", "proxy"),
            ),
        ),
        "follow": Rights(
            needed=(
                *(Right(verb, _KIND) for verb in ("get", "list", "watch")),
                *_PARTS,
                *(Right("watch", right.kind) for right in _PARTS),
            ),
            display=REASONS,
        ),
        "record": RECORD,
        "history": HISTORY,
        "version": Rights(needed=(Right("get", _KIND),), display=(Right("list", _KIND), Right("get", "ConfigMap"))),
        "restart": Rights(
            needed=(Right("get", _KIND), Right("list", "Pod"), Right("delete", "Pod")),
            display=(*HISTORY.needed,),
        ),
        "suspend": Rights(
            needed=(Right("get", _KIND), Right("patch", _KIND)),
            display=(*OPERATOR, *HISTORY.needed),
        ),
        "status": Rights(needed=(Right("get", _KIND),), display=(*_PARTS, *REASONS)),
        "list": Rights(needed=(Right("list", _KIND),), display=(*_PARTS, *OVERVIEW)),
        "events": Rights(
            needed=(Right("get", _KIND), Right("list", "Event")),
            display=tuple(right for right in (*_PARTS, *REASONS) if right != Right("list", "Event")),
        ),
        "follow-events": Rights(needed=(Right("watch", "Event"),)),
        "logs": Rights(
            needed=(Right("get", _KIND), Right("list", "Pod"), Right("get", "Pod", "log")),
            display=(Right("list", _KIND), Right("get", "Namespace"), *OPERATOR),
        ),
        "endpoint": Rights(
            needed=(Right("get", "Service", "proxy"),),
            display=(Right("get", _KIND), Right("list", _KIND), Right("get", "Namespace"), *EXPOSURE),
        ),
        "chat": Rights(
            needed=(Right("get", "Service", "proxy"), Right("create", "Service", "proxy")),
            display=(Right("get", _KIND), Right("list", _KIND), Right("get", "Namespace")),
        ),
        "port-forward": Rights(
            needed=(Right("get", _KIND), *FORWARDING), display=(Right("list", _KIND), Right("get", "Namespace")),
        ),
        "dashboard": Rights(
            needed=(Right("get", _KIND), Right("get", "Service", "proxy")),
            display=(Right("create", "Service", "proxy"), Right("get", "Secret")),
        ),
        "security": Rights(needed=(Right("get", "RayService"),)) | SECURITY,
        "top": Rights(
            needed=(Right("get", _KIND), Right("list", "Pod"), Right("get", "Pod", "proxy")),
            display=(Right("list", _KIND), Right("get", "Namespace")),
        ),
        "delete": Rights(
            needed=(Right("get", _KIND), Right("delete", _KIND), Right("list", "Pod")),
            display=(Right("list", _KIND), Right("get", "Namespace"), *FORGET),
        ),
    },
    is_service=_is_service,
    clusters_of=_clusters_of,
    made_for=kuberay.made_for,
    serve_service=kuberay.openai_service,
    diagnose=_diagnose,
    external=_external,
    explain=_explain,
)  # fmt: skip

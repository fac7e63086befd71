"""What KubeRay and Ray Serve make of a RayService, as objects in the fake API server: enough for it to be Ready."""

from __future__ import annotations

import json
from typing import Any

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import SERVICE
from tests.cluster.fakeapi import FakeAPI

SUFFIX = "bcdfg"
BEGUN = "2026-11-21T09:00:00Z"


def operator(api: FakeAPI) -> None:
    """The operator's Deployment and pod, a node, and the namespaces."""
    labels = {"app.kubernetes.io/name": kuberay.OPERATOR}
    template = {"spec": {"containers": [{"name": "operator", "image": "quay.io/kuberay/operator:v1.6.2"}]}}
    where = {"namespace": "kuberay-system", "labels": labels}
    api.put(
        kind="Deployment", metadata={"name": kuberay.OPERATOR, **where},
        spec={"replicas": 1, "template": template}, status={"readyReplicas": 1},
    )  # fmt: skip
    api.put(kind="Node", metadata={"name": "n1"}, status={
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    })  # fmt: skip


def reconcile(api: FakeAPI, service: dict[str, Any]) -> None:
    """Make the RayService `service` Ready: a RayCluster, a head, a worker, services, addresses, a status."""
    name, where = service["metadata"]["name"], service["metadata"]["namespace"]
    cluster = f"{name}-{SUFFIX}"
    origin = {kuberay.ORIGIN_NAME: name, kuberay.ORIGIN_KIND: "RayService"}
    groups = [
        {**group, "replicas": 1} for group in service["spec"].get("rayClusterConfig", {}).get("workerGroupSpecs", [])
    ]
    copied = service["metadata"].get("labels") or {}
    _put(api, where, "RayCluster", cluster, origin | copied, spec={"workerGroupSpecs": groups},
         status={"head": {"serviceName": kuberay.head_service(cluster)}})  # fmt: skip
    for role in ("head", "worker"):
        _pod(api, where, cluster, role, service=name)
    _put(api, where, "Service", kuberay.head_service(cluster), {kuberay.CLUSTER: cluster})
    serving = kuberay.serve_service(name)
    _put(api, where, "Service", serving, origin)
    _put(api, where, "EndpointSlice", f"{serving}-x", origin | {kuberay.SERVICE_NAME: serving},
         endpoints=[{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}])  # fmt: skip
    generation = service["metadata"]["generation"]
    apps = {name: {"status": "RUNNING", "serveDeploymentStatuses": {f"LLMServer:{name}": {"status": "HEALTHY"}}}}
    api.put(**{**service, "status": {
        "observedGeneration": generation,
        "numServeEndpoints": 1,
        "activeServiceStatus": {"rayClusterName": cluster, "applicationStatuses": apps},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEGUN}],
    }})  # fmt: skip
    worker = {"replica_id": "r1", "state": "RUNNING", "node_instance_id": f"{cluster}-worker", "start_time_s": 1}
    deployment = {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [worker]}
    running = {"status": "RUNNING", "deployments": {f"LLMServer:{name}": deployment}}
    head = kuberay.head_service(cluster)
    none = str(service["spec"].get("serveConfigV2", "")).startswith("applications: []")
    applications = {} if none else {name: running}
    api.answer("GET", f"{head}:dashboard/proxy/api/serve/applications/$", (200, {"applications": applications}))
    api.answer("GET", f"{serving}:serve/proxy/v1/models$", (200, {"data": [{"id": name}]}))
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Because ", "it is.")]
    api.answer("POST", f"{serving}:serve/proxy/v1/chat/completions$", (200, _stream(pieces)))


def reconcile_cluster(api: FakeAPI, cluster: dict[str, Any]) -> None:
    """Make the RayCluster `cluster` with vLLM's own server Ready: a head, a server, addresses, a status."""
    name, where = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    _pod(api, where, name, "head")
    _pod(api, where, name, kuberay.SERVERS, "worker")
    _put(api, where, "Service", kuberay.head_service(name), {kuberay.CLUSTER: name})
    serving = kuberay.openai_service(name)
    origin = {kuberay.ORIGIN_NAME: name, kuberay.ORIGIN_KIND: "RayCluster"}
    _put(api, where, "EndpointSlice", f"{serving}-x", origin | {kuberay.SERVICE_NAME: serving},
         endpoints=[{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}])  # fmt: skip
    provisioned = {"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": BEGUN}
    api.put(**{**cluster, "status": {
        "observedGeneration": cluster["metadata"]["generation"],
        "head": {"serviceName": kuberay.head_service(name)},
        "conditions": [provisioned, {"type": "HeadPodReady", "status": "True"}],
    }})  # fmt: skip
    api.answer("GET", f"{serving}:serve/proxy/v1/models$", (200, {"data": [{"id": name}]}))
    pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Because ", "it is.")]
    api.answer("POST", f"{serving}:serve/proxy/v1/chat/completions$", (200, _stream(pieces)))


def _stream(chunks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _put(api: FakeAPI, where: str, kind: str, name: str, labels: dict[str, str], **parts: Any) -> None:
    api.put(kind=kind, metadata={"name": name, "namespace": where, "labels": labels}, **parts)


def _pod(api: FakeAPI, where: str, cluster: str, role: str, node_type: str = "", service: str = "") -> None:
    labels = {kuberay.CLUSTER: cluster, kuberay.NODE_TYPE: node_type or role, kuberay.GROUP: role}
    labels |= {SERVICE: service or cluster}  # of the pod template
    box = {"name": f"ray-{role}", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": BEGUN}}}
    _put(
        api, where, "Pod", f"{cluster}-{role}", labels,
        spec={"nodeName": "n1", "containers": [{"name": f"ray-{role}"}]},
        status={
            "phase": "Running", "containerStatuses": [box],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEGUN}],
        },
    )  # fmt: skip

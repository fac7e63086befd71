"""What KubeRay 1.6 and Kubernetes make of a RayService or RayCluster, as far as the security checks look at it.

As in ray-operator/controllers/ray/common (pod.go, rbac.go) and the ServiceAccount admission of the API server.
"""

from __future__ import annotations

import copy
from typing import Any

from rayllm_ctl.model.kube import kuberay

Object = dict[str, Any]
NAMESPACE = "llm"
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]


def item(kind: str, name: str, **parts: Any) -> Object:
    """An object of the namespace."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"{kind}-{name}", **parts.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **parts}


def running(workload: Object) -> list[Object]:
    """The object, its RayCluster, a pod of the head and of each worker group, their Services and RBAC objects."""
    workload = copy.deepcopy(workload)
    workload["metadata"] |= {"namespace": NAMESPACE, "uid": "workload"}
    if workload["kind"] == kuberay.RAY_CLUSTER:
        cluster = workload
    else:
        labels = {kuberay.ORIGIN_NAME: workload["metadata"]["name"], kuberay.ORIGIN_KIND: "RayService"}
        name = f"{workload['metadata']['name']}-bcdfg"
        spec = copy.deepcopy(workload["spec"]["rayClusterConfig"])
        cluster = item(kuberay.RAY_CLUSTER, name, metadata={"labels": labels}, spec=spec)
    name, spec = cluster["metadata"]["name"], cluster["spec"]
    cluster["status"] = {"head": {"serviceName": kuberay.head_service(name)}}
    found = [cluster, *_pods(name, spec), *_services(workload, name)]
    if spec.get("enableInTreeAutoscaling"):
        found += _rbac(name, spec)
    return found if workload is cluster else [workload, *found]


def _pods(name: str, spec: Object) -> list[Object]:
    head = copy.deepcopy(spec["headGroupSpec"]["template"])
    if spec.get("enableInTreeAutoscaling"):
        options = spec.get("autoscalerOptions") or {}
        given = {key: options[key] for key in ("securityContext", "volumeMounts") if key in options}
        head["spec"]["containers"].append({"name": "autoscaler", **given})
        head["spec"].setdefault("serviceAccountName", name)
    pods = [_pod(name, "head", "headgroup", head, spec)]
    for group in spec.get("workerGroupSpecs") or ():
        worker = copy.deepcopy(group["template"])
        ray = worker["spec"]["containers"][0]
        waiting = {"name": "wait-gcs-ready", **{key: ray[key] for key in ("securityContext",) if key in ray}}
        worker["spec"]["initContainers"] = [waiting]
        pods.append(_pod(name, "worker", group["groupName"], worker, spec))
    return pods


def _pod(name: str, role: str, group: str, template: Object, cluster: Object) -> Object:
    spec = template["spec"]
    spec.setdefault("serviceAccountName", "default")
    if (cluster.get("authOptions") or {}).get("mode") == "token":
        spec["containers"][0].setdefault("env", []).append({"name": "RAY_AUTH_MODE", "value": "token"})
    if spec.get("automountServiceAccountToken", True):
        access = {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}}
        spec.setdefault("volumes", []).append({"name": "kube-api-access-x7k2p", **access})
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            mount = {"name": "kube-api-access-x7k2p", "mountPath": TOKEN_MOUNT, "readOnly": True}
            container.setdefault("volumeMounts", []).append(mount)
    labels = {
        "app.kubernetes.io/name": "kuberay", "ray.io/is-ray-node": "yes",
        **(template.get("metadata") or {}).get("labels", {}),
        kuberay.CLUSTER: name, kuberay.NODE_TYPE: role, kuberay.GROUP: group,
    }  # fmt: skip
    return item("Pod", f"{name}-{group}-x", metadata={"labels": labels}, spec=spec, status={"phase": "Running"})


def _services(workload: Object, name: str) -> list[Object]:
    ports = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": 8000}
    listed = [{"name": port, "port": number, "targetPort": number} for port, number in ports.items()]
    selector = {kuberay.CLUSTER: name, kuberay.NODE_TYPE: "head"}
    head = item("Service", kuberay.head_service(name), spec={"selector": selector, "ports": listed})
    if workload["kind"] == kuberay.RAY_CLUSTER:
        return [head]
    declared = (workload["spec"].get("serveService") or {}).get("spec") or {}
    serve = {"selector": {kuberay.CLUSTER: name}, "ports": listed[3:], **declared}
    return [head, item("Service", kuberay.serve_service(workload["metadata"]["name"]), spec=serve)]


def _rbac(name: str, spec: Object) -> list[Object]:
    account = spec["headGroupSpec"]["template"]["spec"].get("serviceAccountName") or name
    return [
        item("Role", name, rules=RULES),
        binding("RoleBinding", name, account, "Role", name),
    ]


def binding(kind: str, name: str, account: str, role_kind: str, role: str) -> Object:
    """A binding of a service account of the namespace."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    return item(kind, name, subjects=[subject], roleRef={"kind": role_kind, "name": role})

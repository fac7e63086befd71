"""KubeRay's conventions: its labels, the names of what it makes for a RayService, and how its operator is found.

Source: KubeRay v1.6.2, ray-operator/controllers/ray/utils (constant.go, util.go); unchanged in v1.5.1 and v1.7.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.model.kube.cluster_spec import cluster_spec

RAY_CLUSTER = "RayCluster"
"""The kind of a Ray cluster; KubeRay makes them for RayServices, and users for themselves."""

GROUP_NAME = "ray.io"
"""API group of RayService, RayCluster and RayJob."""

CLUSTER = "ray.io/cluster"
"""Label of pods, and of the services of one RayCluster: the RayCluster's name."""

NODE_TYPE = "ray.io/node-type"
"""Label of pods: head or worker."""

GROUP = "ray.io/group"
"""Label of pods: the worker group's name, `headgroup` on the head."""

SERVERS = "server"
"""Name of the worker group in which vLLM's own server runs (mode raycluster)."""

MEMBERS = "workers"
"""Name of the worker group with the further pods of replicas that need several (mode raycluster)."""

HEAD = "head"
"""Value of NODE_TYPE on the head pod."""
REDIS_CLEANUP = "redis-cleanup"
"""Value of NODE_TYPE on the pod that clears the Redis of a deleted RayCluster with GCS fault tolerance."""

REDIS_FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
"""Finalizer of such a RayCluster. KubeRay removes it after five minutes even if the Redis was not cleared."""

ORIGIN_NAME = "ray.io/originated-from-cr-name"
"""Label of what KubeRay makes for a RayService or RayJob: the name of that object."""

ORIGIN_KIND = "ray.io/originated-from-crd"
"""Label beside ORIGIN_NAME: the kind of that object."""

LOST_ADDRESSES = "ZeroServeEndpoints"
"""Reason of the condition Ready of a RayService that had addresses, and has none."""

INITIALIZING_TIMEOUT = "ray.io/initializing-timeout"
"""Annotation of a RayService: the time after which KubeRay gives a start up."""

OVERWRITE_COMMAND = "ray.io/overwrite-container-cmd"
"""Annotation of pods: KubeRay does not replace the container's command by its own."""

SERVE_PORT = 8000
"""Ray Serve's HTTP port, which the serve service forwards."""

SERVE = "serve"
"""Name of that port, whatever its number is."""

DASHBOARD_PORT = "dashboard"
"""Name of the head service's port to Ray's dashboard, which has Serve's REST API."""

METRICS = "metrics"
"""Name of the head service's port with Ray's metrics, those of Serve's controller among them."""

TOKEN_KEY = "auth_token"  # noqa: S105  the key, not the token
"""Key of the Secret in which KubeRay keeps the token of a Ray cluster."""

TOKEN_HEADER = "x-ray-authorization"  # noqa: S105
"""Header that carries the token to Ray, for clients behind a proxy that uses Authorization itself."""

JOB_NAME = "batch.kubernetes.io/job-name"
"""Label of a Job's pods (set by Kubernetes). KubeRay gives the Job that submits a RayJob the RayJob's name."""

SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the Service whose addresses it holds (set by Kubernetes)."""

OPERATOR = "kuberay-operator"
"""Name of the operator's Deployment, and its field manager (the first part of its user agent)."""

OPERATOR_SELECTOR = f"app.kubernetes.io/name in ({OPERATOR},kuberay),!{CLUSTER}"
"""Selects the operator's Deployment and pods: its Helm chart and its kustomization (config/manager) name it
differently, and the name that the latter gives is on every Ray pod as well."""

_SERVE = "-serve-svc"
_OPENAI = "-openai"
_HEAD = "-head-svc"

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
"""What is appended to a RayService's name for its RayCluster (k8s.io/apimachinery/pkg/util/rand)."""


def serve_service(service: str) -> str:
    """The Service in front of a RayService's applications; it exists once they run."""
    return f"{service}{_SERVE}"


def openai_service(name: str) -> str:
    """The Service in front of vLLM's own servers on the RayCluster `name`; applied with it, not made by KubeRay."""
    return f"{name}{_OPENAI}"


def serve_ports(rayservice: Mapping[str, Any]) -> dict[str, int]:
    """The ports of a RayService's serve service by name: those of the head's first container that are named serve or
    serve-..., as KubeRay 1.6 takes them (ray-operator/controllers/ray/common/service.go)."""
    spec = cluster_spec(rayservice)
    pod = ((spec.get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
    container: Mapping[str, Any] = next(iter(pod.get("containers") or ()), {})
    named = {str(port.get("name")): int(port["containerPort"]) for port in container.get("ports") or ()}
    return {name: port for name, port in named.items() if name == "serve" or name.startswith("serve-")}


def served_by(name: str) -> str:
    """The RayService or RayCluster behind a Service called `name`; `name` itself if it is neither's."""
    return name.removesuffix(_SERVE).removesuffix(_OPENAI)


def head_service(owner: str) -> str:
    """The Service of the head pod: of one RayCluster, or of a RayService (then of its active RayCluster)."""
    return f"{owner}{_HEAD}"


def token_secret(ray_cluster: Mapping[str, Any]) -> str | None:
    """The Secret with the token of a RayCluster, None if Ray asks for none.

    By default KubeRay makes one of the RayCluster's name, cut to its last 50 characters (utils/util.go, CheckName).
    """
    options = (ray_cluster.get("spec") or {}).get("authOptions") or {}
    if options.get("mode") != "token":
        return None
    own = str(ray_cluster["metadata"]["name"])[-50:]
    return str(options.get("secretName") or (own if own[0].isalpha() else f"r{own[1:]}"))


def asks_for_token(service: Mapping[str, Any]) -> bool:
    """Whether Ray asks for a token in the RayClusters of a RayService, or in a RayCluster; no for other kinds."""
    spec = service.get("spec") or {}
    cluster = spec if service.get("kind") == RAY_CLUSTER else spec.get("rayClusterConfig") or {}
    return (cluster.get("authOptions") or {}).get("mode") == "token"


def made_for(service: str) -> str:
    """Label selector of what KubeRay makes for the RayService `service`: RayClusters and services."""
    return f"{ORIGIN_NAME}={service}"


def part_of(clusters: Iterable[str]) -> str:
    """Label selector of the pods, and the services, of RayClusters; empty if there is no RayCluster."""
    names = sorted(clusters)
    return f"{CLUSTER} in ({','.join(names)})" if names else ""


def is_child_cluster(name: str, service: str) -> bool:
    """Whether a RayCluster called `name` may be one that KubeRay made for the RayService `service`."""
    return bool(re.fullmatch(_child(service), name))


def is_child(name: str, service: str) -> bool:
    """Whether an object called `name` may be one that KubeRay made for the RayService `service`, at any depth."""
    own = rf"{re.escape(service)}-(head-svc|serve-svc|gateway|httproute)"
    return bool(re.fullmatch(rf"{own}|{_child(service)}(-.*)?", name))


def is_part(name: str, cluster: str) -> bool:
    """Whether an object called `name` belongs to the RayCluster `cluster` of a service in mode raycluster."""
    pods = f"head(-{_RANDOM})?|({SERVERS}|{MEMBERS})-worker-{_RANDOM}"
    return bool(re.fullmatch(rf"{re.escape(cluster)}(-(head-svc|openai|openai-{_RANDOM}|{pods}))?", name))


def is_operator(labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels is the operator's: its Deployment, or a pod of it."""
    # The Helm chart labels it by name, the kustomization by component.
    return OPERATOR in (labels.get("app.kubernetes.io/name"), labels.get("app.kubernetes.io/component"))


def _child(service: str) -> str:
    return rf"{re.escape(service)}-{_RANDOM}"


def is_suspended(item: Mapping[str, Any]) -> bool:
    """Whether the spec of a RayService or RayCluster says that it is to have no pods."""
    return any(
        isinstance(one, Mapping) and one.get("suspend") is True for one in (item.get("spec"), cluster_spec(item))
    )


def answers(live: Mapping[str, Any]) -> bool:
    """Whether KubeRay counts an address, or a worker that is ready. A service that never came up can lose nothing.

    KubeRay counts addresses some seconds after there are some: until it has, a running application counts as answering.
    """
    status = live.get("status") or {}
    if int(status.get("numServeEndpoints") or status.get("readyWorkerReplicas") or 0) > 0:
        return True
    reasons = [one.get("reason") for one in status.get("conditions") or () if one.get("type") == "Ready"]
    applications = (status.get("activeServiceStatus") or {}).get("applicationStatuses") or {}
    runs = any(one.get("status") == "RUNNING" for one in applications.values())
    return runs and LOST_ADDRESSES not in reasons

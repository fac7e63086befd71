"""The answers of the Ray dashboard, in the form in which Ray 2.60 gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from e2e.simulate.pods import RayPod
from e2e.simulate.serve import Application, Deployment, Replica, Serve

# What Serve fills in for a deployment's own config.
_DEPLOYMENT_DEFAULTS = {
    "max_ongoing_requests": 1_000_000_000,
    "max_queued_requests": -1,
    "backpressure_config": {"status_code": 503, "retry_after_s": None},
    "user_config": None,
    "graceful_shutdown_wait_loop_s": 2.0,
    "graceful_shutdown_timeout_s": 20.0,
    "health_check_period_s": 10.0,
    "health_check_timeout_s": 10.0,
    "rolling_update_percentage": 0.2,
    "max_surge_percent": 0,
}


def serve_details(serve: Serve, pods: Sequence[RayPod]) -> dict[str, Any]:
    """GET /api/serve/applications/."""
    if not serve.started:
        # The dashboard's own answer, also where it does not reach the controller.
        return {"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": None}
    head = next((pod for pod in pods if pod.head), None)
    return {
        **_frame(serve, proxies(serve, pods)),
        "controller_info": {**_place(serve, head), **_actor(serve, "controller", "SERVE_CONTROLLER_ACTOR")},
        "applications": {name: _application(serve, name, app, pods) for name, app in serve.applications.items()},
    }


def proxies(serve: Serve, pods: Sequence[RayPod]) -> list[RayPod]:
    """The pods that have a Serve proxy: the head, and those that hold a replica."""
    holding = {name for _, _, replica in replicas(serve) for name in replica.pods[:1]}
    return [pod for pod in pods if serve.applications and pod.ready and (pod.head or pod.name in holding)]


def replicas(serve: Serve) -> Iterator[tuple[str, Deployment, Replica]]:
    """All replicas with the name of their application and their deployment."""
    for name, app in serve.applications.items():
        for deployment in app.deployments.values():
            for replica in deployment.replicas:
                yield name, deployment, replica


def actors(serve: Serve, pods: Sequence[RayPod]) -> dict[str, Any]:
    """GET /api/v0/actors?detail=1: the actors of the replicas."""
    nodes = {pod.name: pod for pod in pods}
    listed = []
    for app, deployment, replica in replicas(serve):
        pod = nodes.get(replica.pods[0]) if replica.pods else None
        state = "ALIVE" if replica.running else "PENDING_CREATION"
        listed.append(
            {
                "actor_id": _id(serve, replica.id, 32),
                "class_name": f"ServeReplica:{app}:{deployment.spec.name}",
                "state": state,
                "job_id": "01000000",
                "name": _actor_name(app, deployment, replica),
                "node_id": _node_id(serve, pod) if pod else None,
                "pid": _pid(replica.id) if pod else 0,
                "ray_namespace": "serve",
                "serialized_runtime_env": "{}",
                "required_resources": dict(deployment.spec.actor_resources),
                "death_cause": None,
                "is_detached": True,
                "placement_group_id": _id(serve, "group" + replica.id, 36) if deployment.spec.grouped else None,
                "repr_name": "",
            }
        )
    result = {
        "total": len(listed),
        "num_after_truncation": len(listed),
        "num_filtered": len(listed),
        "result": listed,
        "partial_failure_warning": "",
        "warnings": None,
    }
    return {"result": True, "msg": "", "data": {"result": result}}


def find_replica(serve: Serve, actor_id: str) -> tuple[Deployment, Replica] | None:
    """The replica whose actor has an id."""
    for _, deployment, replica in replicas(serve):
        if _id(serve, replica.id, 32) == actor_id:
            return deployment, replica
    return None


def _frame(serve: Serve, with_proxy: Sequence[RayPod]) -> dict[str, Any]:
    found = {_node_id(serve, pod): {**_proxy(serve, pod), "status": "HEALTHY"} for pod in with_proxy}
    targets = [
        {"ip": pod.address, "port": 8000, "instance_id": "", "name": _proxy_name(serve, pod)} for pod in with_proxy
    ]
    group = {"targets": targets, "route_prefix": "/", "protocol": "HTTP", "app_name": ""}
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": 8000, "root_path": "", "request_timeout_s": None},
        "grpc_options": {"port": 9000, "grpc_servicer_functions": [], "request_timeout_s": None},
        "proxies": found,
        "applications": {},
        "target_capacity": None,
        "target_groups": [group] if targets else [],
    }


def _application(serve: Serve, name: str, app: Application, pods: Sequence[RayPod]) -> dict[str, Any]:
    built = bool(app.deployments)
    return {
        "name": name,
        "route_prefix": app.config.get("route_prefix", "/") if built else None,
        "docs_path": "/docs" if built else None,
        "status": app.status,
        "message": app.message,
        "last_deployed_time_s": app.deployed,
        "deployed_app_config": app.config,
        "source": "declarative",
        "deployments": {one.spec.name: _deployment(serve, name, one, pods) for one in app.deployments.values()},
        "external_scaler_enabled": False,
        "deployment_topology": _topology(name, app) if built else None,
    }


def _deployment(serve: Serve, app: str, deployment: Deployment, pods: Sequence[RayPod]) -> dict[str, Any]:
    spec = deployment.spec
    scaled = {} if "autoscaling_config" in spec.config else {"num_replicas": spec.replicas}
    return {
        "name": spec.name,
        "status": deployment.status,
        "status_trigger": deployment.trigger,
        "message": deployment.message,
        "deployment_config": {"name": spec.name, **_DEPLOYMENT_DEFAULTS, **scaled, **spec.config},
        "target_num_replicas": spec.replicas,
        "required_resources": dict(spec.actor_resources),
        "replicas": [_replica(serve, app, deployment, replica, pods) for replica in deployment.replicas],
        "recent_dead_replicas": [],
    }


def _replica(
    serve: Serve, app: str, deployment: Deployment, replica: Replica, pods: Sequence[RayPod]
) -> dict[str, Any]:
    base: dict[str, Any] = {
        "actor_name": _actor_name(app, deployment, replica),
        "replica_id": replica.id,
        "state": "RUNNING" if replica.running else "STARTING",
        "start_time_s": replica.created,
    }
    pod = next((pod for pod in pods if replica.pods and pod.name == replica.pods[0]), None)
    if pod is None:
        return base
    safe = deployment.spec.name.replace(":", "_")
    return {
        **_place(serve, pod),
        **_actor(serve, replica.id, base["actor_name"]),
        "log_file_path": f"/serve/replica_{app}_{safe}_{replica.id}.log",
        **base,
        "pid": _pid(replica.id),
    }


def _topology(name: str, app: Application) -> dict[str, Any]:
    specs = [deployment.spec for deployment in app.deployments.values()]
    called = [{"name": spec.name, "app_name": name} for spec in specs if not spec.ingress]
    nodes = {
        spec.name: {
            "name": spec.name,
            "app_name": name,
            "outbound_deployments": called if spec.ingress else [],
            "is_ingress": spec.ingress,
        }
        for spec in specs
    }
    ingress = next((spec.name for spec in specs if spec.ingress), None)
    return {"app_name": name, "nodes": nodes, "ingress_deployment": ingress}


def _actor_name(app: str, deployment: Deployment, replica: Replica) -> str:
    return f"SERVE_REPLICA::{app}#{deployment.spec.name}#{replica.id}"


def _proxy_name(serve: Serve, pod: RayPod) -> str:
    return f"SERVE_PROXY_ACTOR-{_node_id(serve, pod)}"


def _proxy(serve: Serve, pod: RayPod) -> dict[str, Any]:
    log = f"/serve/proxy_{pod.address}.log"
    return {**_place(serve, pod), **_actor(serve, "proxy" + pod.uid, _proxy_name(serve, pod)), "log_file_path": log}


def _place(serve: Serve, pod: RayPod | None) -> dict[str, Any]:
    if pod is None:
        return {}
    return {"node_id": _node_id(serve, pod), "node_ip": pod.address, "node_instance_id": ""}


def _actor(serve: Serve, key: str, name: str) -> Mapping[str, Any]:
    ids = {"actor_id": _id(serve, key, 32), "worker_id": _id(serve, "worker" + key, 56)}
    return {**ids, "actor_name": name, "log_file_path": None}


def _node_id(serve: Serve, pod: RayPod) -> str:
    return _id(serve, "node" + pod.uid, 56)


def _pid(key: str) -> int:
    return 300 + int(key, 16) % 30000


def _id(serve: Serve, key: str, length: int) -> str:
    return hashlib.sha256(f"{serve.identity}/{key}".encode()).hexdigest()[:length]

"""Serve's answer to GET /api/serve/applications/ as types: applications, deployments, replicas.

What could not be read is an `error`, and never an answer without applications.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.names import ENGINE_DEPLOYMENT, INGRESS_DEPLOYMENT
from rayllm_ctl.model.observed import fields

NO_CONTROLLER: Final = "Ray's dashboard does not reach Serve's controller"


@dataclass(frozen=True)
class Replica:
    """A replica; `pod` is where it runs, empty while Ray looks for a place.

    `node`: Ray's id of the node. `actor`: Ray's id of its actor, empty before there is one. `log_file`: its path.
    """

    id: str
    state: str
    pod: str
    started: datetime | None
    node: str = ""
    actor: str = ""
    log_file: str = ""

    @property
    def place(self) -> str:
        """Its pod; where that is not known, the start of the id of its node."""
        return self.pod or self.node[:8]


@dataclass(frozen=True)
class Deployment:
    """A Serve deployment. `target` is the number of replicas wanted now, `high` the most that autoscaling may ask for.

    `ingress`: it answers for deployments behind it, of its application or of others.
    `trigger`: what brought the status about (CONFIG_UPDATE_STARTED, AUTOSCALING, HEALTH_CHECK_FAILED, …).
    `lost`: Serve calls it DEPLOY_FAILED because a replica was lost during a change; its status here is UNHEALTHY.
    `bundles`: what a replica needs, one mapping per process; `packed`: all of them on one node.
    `requests`: what one replica takes at once; `wanted_requests`: how many autoscaling wants on each.
    """

    app: str
    name: str
    status: str
    trigger: str
    message: str
    target: int
    low: int
    high: int
    autoscaled: bool
    ingress: bool
    bundles: tuple[Mapping[str, float], ...]
    packed: bool
    replicas: tuple[Replica, ...]
    dead: tuple[Replica, ...]
    lost: bool = False
    requests: int = 0
    wanted_requests: float | None = None

    @property
    def running(self) -> tuple[Replica, ...]:
        """Running replicas, as reported by Serve."""
        return tuple(replica for replica in self.replicas if replica.state == "RUNNING")

    @property
    def needs(self) -> str:
        """What one replica needs, as Ray writes it: {CPU: 1, GPU: 1} × 4."""
        shapes: dict[str, int] = {}
        for bundle in self.bundles:
            plain = [f"{name}: {amount:g}" for name, amount in bundle.items() if ":" not in name]
            kinds = [name.partition(":")[2] for name in bundle if ":" in name]
            shape = "{" + ", ".join([*plain, *kinds]) + "}"
            shapes[shape] = shapes.get(shape, 0) + 1
        return " + ".join(f"{shape} × {count}" if count > 1 else shape for shape, count in shapes.items())


@dataclass(frozen=True)
class Application:
    """`deployed`: when Serve last got a configuration for it. `config`: that configuration."""

    name: str
    status: str
    message: str
    deployed: datetime | None
    deployments: tuple[Deployment, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Controller:
    """Serve's controller: Ray's id of its node, its pod, and the path of its log; empty if they are not known."""

    node: str = ""
    pod: str = ""
    log_file: str = ""


NOT_ASKED = "Serve was not asked"
"""The error of a ServeState where nobody asked: a list of services is read without Serve."""


@dataclass(frozen=True)
class ServeState:
    """Serve's state on one RayCluster.

    `error`: why there is no answer. `from_status`: the operator's copy stands in for it, without replicas.
    `port`: where its proxies listen. `proxies`: the pods whose proxy answers, by Serve's own account.
    `silent_node`: the head's node, where that does not answer either.
    `no_controller`: the answer is the dashboard's own, with nothing of Serve's controller in it. It is the same, with
    status 200, where Serve was never started and where the controller cannot be found for whatever reason
    (get_serve_controller in ray/dashboard/modules/serve/serve_head.py of Ray 2.60). So of a RayCluster on which Serve
    has run it does not say that there is no application.
    `pods`: the pod of each node of Ray that the answer names.
    """

    applications: tuple[Application, ...] = ()
    error: str = ""
    from_status: bool = False
    port: int = kuberay.SERVE_PORT
    proxies: frozenset[str] = frozenset()
    silent_node: str = ""
    no_controller: bool = False
    controller: Controller = field(default_factory=Controller)
    pods: Mapping[str, str] = field(default_factory=dict)

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        return tuple(deployment for app in self.applications for deployment in app.deployments)

    @property
    def engines(self) -> tuple[Deployment, ...]:
        """The deployments of models."""
        return tuple(one for one in self.deployments if one.name.startswith(ENGINE_DEPLOYMENT))

    def application(self, name: str) -> Application | None:
        return next((app for app in self.applications if app.name == name), None)

    def deployment(self, app: str, name: str) -> Deployment | None:
        return next((one for one in self.deployments if (one.app, one.name) == (app, name)), None)


_REQUIRED = re.compile(r"Resources required for each replica: (\[.*?\]|\{.*?\}), total resources available", re.S)


def read_serve(answer: Any) -> ServeState:
    """The body of Serve's answer, or {"error": text}."""
    error = fields.text(answer, "error")
    if error or not isinstance(fields.at(answer, "applications"), Mapping):
        return ServeState(error=error or "no answer of Serve", silent_node=fields.text(answer, "silentNode"))
    proxies = fields.mapping(answer, "proxies").values()
    controller = fields.mapping(answer, "controller_info")
    return ServeState(
        tuple(_application(key, app) for key, app in fields.mapping(answer, "applications").items()),
        port=fields.integer(answer, "http_options", "port", default=kuberay.SERVE_PORT),
        proxies=frozenset(
            fields.text(proxy, "node_instance_id") for proxy in proxies if fields.text(proxy, "status") == "HEALTHY"
        ),
        no_controller="controller_info" in answer and not controller,
        controller=Controller(
            fields.text(controller, "node_id"),
            fields.text(controller, "node_instance_id"),
            fields.text(controller, "log_file_path"),
        ),
        pods=dict(_pods(answer)),
    )


def _pods(value: Any) -> Iterator[tuple[str, str]]:
    """Ray node and pod, from every part of Serve's answer that knows both (KubeRay calls an instance as its pod)."""
    if isinstance(value, Mapping):
        if value.get("node_id") and value.get("node_instance_id"):
            yield str(value["node_id"]), str(value["node_instance_id"])
        for part in value.values():
            yield from _pods(part)
    elif isinstance(value, list):
        for part in value:
            yield from _pods(part)


def read_status_applications(applications: Mapping[str, Any], error: str) -> ServeState:
    """The copy that the operator keeps in the RayService's status, where Serve itself could not be asked (`error`)."""
    found = []
    for name, app in applications.items():
        deployments = tuple(
            Deployment(
                app=name, name=key, status=fields.text(one, "status"), trigger="", message=fields.text(one, "message"),
                target=0, low=0, high=0, autoscaled=False, ingress=key == INGRESS_DEPLOYMENT,
                bundles=(), packed=False,
                replicas=(), dead=(),
            )
            for key, one in fields.mapping(app, "serveDeploymentStatuses").items()
        )  # fmt: skip
        found.append(Application(name, fields.text(app, "status"), fields.text(app, "message"), None, deployments))
    return ServeState(tuple(found), error=error, from_status=True)


def _application(name: str, app: Any) -> Application:
    first = fields.text(app, "deployment_topology", "ingress_deployment")
    found = fields.mapping(app, "deployments")
    deployments = tuple(
        # A deployment alone is in front of nothing, unless it is the ingress of models in other applications.
        _deployment(name, key, value, key == INGRESS_DEPLOYMENT or (key == first and len(found) > 1))
        for key, value in found.items()
    )
    status = fields.text(app, "status")
    lost = any(_lost_a_replica(value) for value in found.values())
    if status == "DEPLOY_FAILED" and lost and not any(one.status == "DEPLOY_FAILED" for one in deployments):
        status = "UNHEALTHY"
    return Application(
        name,
        status,
        fields.text(app, "message"),
        fields.epoch(app, "last_deployed_time_s"),
        deployments,
        fields.mapping(app, "deployed_app_config"),
    )


def _lost_a_replica(deployment: Any) -> bool:
    """Whether a deployment is DEPLOY_FAILED because a replica was lost during a change.

    Serve replaces it, and the deployment is HEALTHY again then (Ray 2.60, ray/serve/_private/common.py): it is what is
    UNHEALTHY at other times.
    """
    trigger = fields.text(deployment, "status_trigger")
    return fields.text(deployment, "status") == "DEPLOY_FAILED" and trigger == "HEALTH_CHECK_FAILED"


def _deployment(app: str, name: str, value: Any, ingress: bool) -> Deployment:
    config = fields.mapping(value, "deployment_config")
    scaling = fields.mapping(config, "autoscaling_config")
    message = fields.text(value, "message")
    fixed = fields.integer(config, "num_replicas", default=1)
    target = fields.integer(value, "target_num_replicas", default=fixed)
    lost = _lost_a_replica(value)
    return Deployment(
        app=app,
        name=name,
        status="UNHEALTHY" if lost else fields.text(value, "status"),
        trigger=fields.text(value, "status_trigger"),
        message=message,
        target=target,
        low=fields.integer(scaling, "min_replicas", default=1) if scaling else fixed,
        high=fields.integer(scaling, "max_replicas", default=1) if scaling else fixed,
        autoscaled=bool(scaling),
        ingress=ingress,
        bundles=_bundles(value, config, message),
        packed=config.get("placement_group_strategy") == "STRICT_PACK",
        replicas=tuple(_replica(one) for one in fields.items(value, "replicas")),
        dead=tuple(_replica(one) for one in fields.items(value, "recent_dead_replicas")),
        lost=lost,
        requests=fields.integer(config, "max_ongoing_requests"),
        wanted_requests=fields.number(scaling, "target_ongoing_requests"),
    )


def _bundles(value: Any, config: Mapping[str, Any], message: str) -> tuple[Mapping[str, float], ...]:
    """What a replica needs. Serve LLM's placement group shows only in the warning of a replica that waits."""
    found = _REQUIRED.search(message)
    if found:
        try:
            written = json.loads(found[1])
        except ValueError:
            written = None
        bundles = written if isinstance(written, list) else [written]
        shaped = tuple(_shape(bundle) for bundle in bundles if isinstance(bundle, Mapping))
        if shaped:
            return shaped
    grouped = fields.items(config, "placement_group_bundles")
    if grouped:
        return tuple(_shape(bundle) for bundle in grouped)
    single = _shape(fields.mapping(value, "required_resources"))
    return (single,) if single else ()


def _shape(bundle: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(name): float(amount) for name, amount in bundle.items() if isinstance(amount, (int, float)) and amount > 0
    }


def _replica(value: Mapping[str, Any]) -> Replica:
    return Replica(
        id=fields.text(value, "replica_id"),
        state=fields.text(value, "state"),
        pod=fields.text(value, "node_instance_id"),
        started=fields.epoch(value, "start_time_s"),
        node=fields.text(value, "node_id"),
        actor=fields.text(value, "actor_id"),
        log_file=fields.text(value, "log_file_path"),
    )

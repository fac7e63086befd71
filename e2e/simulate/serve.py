"""Serve's controller without Serve: replicas are placed on the cluster's pods, start, run, die and are replaced.

States and transitions are those of Ray Serve 2.60 (DeploymentStatusInfo.handle_transition and the application's status
from its deployments). Autoscaling is not simulated: a deployment keeps the number of replicas that it starts with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.simulate import placement
from e2e.simulate.llmapp import DeploymentSpec, deployments
from e2e.simulate.pods import RayPod
from e2e.simulate.settings import Failure, Settings

HEALTH_CHECK_FAILED = (
    "A replica's health check failed. This deployment will be UNHEALTHY until the replica recovers or a new deploy "
    "happens."
)


@dataclass
class Replica:
    """One replica. `pods` are the names of the pods that its bundles lie on (empty while it waits)."""

    id: str
    created: float
    pods: tuple[str, ...] = ()
    placed: float = 0.0
    running: bool = False


@dataclass
class Deployment:
    """One deployment: what is wanted, its replicas, and the status as Serve says it."""

    spec: DeploymentSpec
    replicas: list[Replica] = field(default_factory=list)
    status: str = "UPDATING"
    trigger: str = "CONFIG_UPDATE_STARTED"
    message: str = ""
    made: int = 0


@dataclass
class Application:
    """One application: its config as it was put, and its deployments once they are built."""

    config: Mapping[str, Any]
    deployed: float
    deployments: dict[str, Deployment] = field(default_factory=dict)
    status: str = "DEPLOYING"
    message: str = ""


@dataclass
class Serve:
    """Serve on one Ray cluster. Ids are made from `identity`: they differ between clusters and stay the same."""

    identity: str
    applications: dict[str, Application] = field(default_factory=dict)
    started: bool = False
    """Whether its controller is there: from the first config on, also while that has no applications."""

    def put(self, config: Mapping[str, Any], now: float) -> None:
        """Take a new config: new and changed applications are (re)deployed, those that are gone are deleted.

        ValueError, with the text that Serve answers, for a config that Serve would refuse.
        """
        wanted = _applications(config)
        self.started = True
        self.applications = {name: app for name, app in self.applications.items() if name in wanted}
        for name, app in wanted.items():
            known = self.applications.get(name)
            if known is None or known.config != app:
                self.applications[name] = Application(app, now)

    def shut_down(self) -> None:
        """End all applications, and the controller."""
        self.applications, self.started = {}, False

    def crash(self, name: str) -> bool:
        """Let the first running replica of a deployment (a name, or the start of one) die; whether there was any."""
        for app in self.applications.values():
            for deployment in app.deployments.values():
                running = [one for one in deployment.replicas if one.running]
                if deployment.spec.name.startswith(name) and running:
                    self._lose(deployment, running[0])
                    return True
        return False

    def advance(self, pods: Sequence[RayPod], settings: Settings, now: float) -> None:
        """Bring everything to the state of `now` on the cluster's pods."""
        ready = {pod.name: pod for pod in pods if pod.ready}
        for app in self.applications.values():
            self._build(app, settings, now)
            for deployment in app.deployments.values():
                for replica in [one for one in deployment.replicas if not set(one.pods) <= ready.keys()]:
                    self._lose(deployment, replica)
        free = self._free(ready)
        for name, app in self.applications.items():
            for deployment in app.deployments.values():
                self._fill(name, deployment, now)
                self._start(deployment, free, settings, now)
                _judge(name, deployment, settings, now)
            _judge_application(app, settings.fail)

    def _build(self, app: Application, settings: Settings, now: float) -> None:
        fails = settings.fail is not None and not settings.fail.deployment
        if not app.deployments and not fails and now - app.deployed >= settings.build_seconds:
            app.deployments = {spec.name: Deployment(spec) for spec in deployments(app.config)}

    def _lose(self, deployment: Deployment, replica: Replica) -> None:
        deployment.replicas.remove(replica)
        deployment.status = "DEPLOY_FAILED" if deployment.status == "UPDATING" else "UNHEALTHY"
        deployment.trigger, deployment.message = "HEALTH_CHECK_FAILED", HEALTH_CHECK_FAILED

    def _free(self, ready: Mapping[str, RayPod]) -> dict[str, dict[str, float]]:
        free = {name: dict(pod.resources) for name, pod in ready.items()}
        for app in self.applications.values():
            for deployment in app.deployments.values():
                for replica in deployment.replicas:
                    for pod, bundle in zip(replica.pods, deployment.spec.bundles, strict=False):
                        free[pod] = placement.subtract(free[pod], bundle)
        return free

    def _fill(self, application: str, deployment: Deployment, now: float) -> None:
        while len(deployment.replicas) < deployment.spec.replicas:
            seed = f"{self.identity}/{application}/{deployment.spec.name}/{deployment.made}"
            deployment.replicas.append(Replica(hashlib.sha256(seed.encode()).hexdigest()[:8], now))
            deployment.made += 1

    def _start(self, deployment: Deployment, free: dict[str, dict[str, float]], settings: Settings, now: float) -> None:
        spec = deployment.spec
        fails = settings.fail is not None and _concerns(settings.fail, spec)
        for replica in deployment.replicas:
            if not replica.pods:
                nodes = placement.place(spec.bundles, spec.strategy, free)
                if nodes is None:
                    continue
                replica.pods, replica.placed = tuple(nodes), now
                for node, bundle in zip(nodes, spec.bundles, strict=True):
                    free[node] = placement.subtract(free[node], bundle)
            replica.running = not fails and now - replica.placed >= settings.start_seconds


def waiting_message(application: str, spec: DeploymentSpec, waiting: int, seconds: float) -> str:
    """What Serve says of replicas that wait for resources (it has no figures of what is free for a placement group)."""
    required = json.dumps(list(spec.bundles) if spec.grouped else spec.bundles[0])
    return (
        f"Deployment '{spec.name}' in application '{application}' has {waiting} replicas that have taken more than "
        f"{seconds:g}s to be scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime "
        f"environment to be installed. Resources required for each replica: {required}, "
        "total resources available: {}. Use `ray status` for more details."
    )


def starting_message(application: str, spec: DeploymentSpec, starting: int, seconds: float) -> str:
    """What Serve says of replicas that take long to start."""
    return (
        f"Deployment '{spec.name}' in application '{application}' has {starting} replicas that have taken more than "
        f"{seconds:g}s to initialize.\nThis may be caused by a slow __init__ or reconfigure method."
    )


def _judge(application: str, deployment: Deployment, settings: Settings, now: float) -> None:
    """The deployment's status after its replicas were looked at."""
    spec, failure = deployment.spec, settings.fail
    if failure and _concerns(failure, spec):
        failed = failure.status == "DEPLOY_FAILED"
        deployment.status = failure.status if failure.status in ("DEPLOY_FAILED", "UNHEALTHY") else "UPDATING"
        deployment.trigger = "REPLICA_STARTUP_FAILED" if failed else "HEALTH_CHECK_FAILED"
        deployment.message = failure.message
        return
    if all(replica.running for replica in deployment.replicas):
        if deployment.status != "HEALTHY":
            recovered = deployment.status == "UNHEALTHY"
            deployment.trigger = "UNSPECIFIED" if recovered else "CONFIG_UPDATE_COMPLETED"
            deployment.status, deployment.message = "HEALTHY", ""
        return
    if deployment.status != "UPDATING":
        return
    limit = settings.warning_seconds
    waiting = sum(not one.pods and now - one.created > limit for one in deployment.replicas)
    starting = sum(bool(one.pods) and not one.running and now - one.placed > limit for one in deployment.replicas)
    if waiting:
        deployment.message = waiting_message(application, spec, waiting, limit)
    elif starting:
        deployment.message = starting_message(application, spec, starting, limit)


def _judge_application(app: Application, failure: Failure | None) -> None:
    if failure and not failure.deployment:
        app.status, app.message, app.deployments = failure.status, failure.message, {}
        return
    by_status: dict[str, list[str]] = {}
    for deployment in app.deployments.values():
        by_status.setdefault(deployment.status, []).append(deployment.spec.name)
    if "DEPLOY_FAILED" in by_status:
        app.status, app.message = "DEPLOY_FAILED", f"Failed to update the deployments {by_status['DEPLOY_FAILED']}."
    elif "UNHEALTHY" in by_status:
        app.status, app.message = "UNHEALTHY", f"The deployments {by_status['UNHEALTHY']} are UNHEALTHY."
    elif "UPDATING" in by_status or not app.deployments:
        app.status, app.message = "DEPLOYING", ""
    else:
        app.status, app.message = "RUNNING", ""


def _concerns(failure: Failure, spec: DeploymentSpec) -> bool:
    return bool(failure.deployment) and spec.name.startswith(failure.deployment)


def _applications(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The applications of a config by name; ValueError for what Serve's schema refuses."""
    listed = config.get("applications")
    if not isinstance(listed, list):
        raise ValueError("1 validation error for ServeDeploySchema\napplications\n  Field required")
    found: dict[str, Mapping[str, Any]] = {}
    prefixes: set[str] = set()
    for position, app in enumerate(listed):
        if "import_path" not in app:
            raise ValueError(
                f"1 validation error for ServeDeploySchema\napplications.{position}.import_path\n  Field required"
            )
        name, prefix = str(app.get("name", "default")), app.get("route_prefix", "/")
        if name in found or prefix in prefixes:
            what = f"names: ['{name}']" if name in found else f"route_prefix: ['{prefix}']"
            raise ValueError(f"1 validation error for ServeDeploySchema\n  Value error, Found duplicate {what}")
        found[name] = app
        if prefix is not None:
            prefixes.add(prefix)
    return found

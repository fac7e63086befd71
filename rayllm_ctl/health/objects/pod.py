"""What a Pod's status says, container by container."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.quantity import ResourceQuantities, pod_requests
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import COMPONENT
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object


@dataclass(frozen=True)
class Exit:
    """How a container ended."""

    code: int
    reason: str
    message: str
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True)
class Container:
    """One container of a pod. `state` is waiting, running, terminated, or empty when the kubelet has not said yet."""

    name: str
    init: bool
    image: str
    state: str
    reason: str
    message: str
    ready: bool
    restarts: int
    started: datetime | None
    ended: Exit | None
    last_ended: Exit | None
    spec: Mapping[str, Any]

    @property
    def memory_limit(self) -> str:
        """The memory limit as the pod writes it (600Mi), or an empty string."""
        return str(fields.mapping(self.spec, "resources", "limits").get("memory", ""))


@dataclass(frozen=True)
class Pod:
    """A Pod of a RayCluster, or of a Job that submits a RayJob or downloads a model: then `cluster` is empty."""

    item: Object
    name: str
    cluster: str
    group: str
    head: bool
    node: str
    ip: str
    phase: str
    ready: bool
    created: datetime | None
    deleted: datetime | None
    containers: tuple[Container, ...]
    requests: ResourceQuantities
    never_restarts: bool

    @property
    def subject(self) -> str:
        return f"pod/{self.name}"

    @property
    def role(self) -> str:
        if self.head or self.cluster:
            return "head" if self.head else "worker"
        return "download" if fields.label(self.item, COMPONENT) == DOWNLOAD_COMPONENT else "submitter"

    @property
    def alive(self) -> bool:
        """Neither being deleted nor at its end."""
        return self.deleted is None and self.phase not in ("Failed", "Succeeded")

    @property
    def main(self) -> Container | None:
        """The container that runs Ray: KubeRay takes the first one of the pod template."""
        first = next(iter(fields.items(self.item, "spec", "containers")), None)
        found = [
            c for c in self.containers if not c.init and first is not None and c.name == fields.text(first, "name")
        ]
        return found[0] if found else None

    @property
    def memory_limit(self) -> str:
        """The memory limit of Ray's container, or an empty string."""
        first = next(iter(fields.items(self.item, "spec", "containers")), {})
        return str(fields.mapping(first, "resources", "limits").get("memory", ""))

    @property
    def running(self) -> bool:
        """Whether Ray's container runs, be it that the pod is being deleted."""
        return self.main is not None and self.main.state == "running"

    @property
    def up(self) -> bool:
        """Whether Ray's container runs. A worker without a Serve replica is up and, by design, never Ready."""
        return self.alive and self.running

    @property
    def accelerators(self) -> int:
        """How many GPUs (or other accelerators) the pod asks for."""
        return int(sum(amount for resource, amount in self.requests.items() if is_accelerator(resource)))

    def init_container(self, name: str) -> Container | None:
        """The init container of that name, once the kubelet has told of it."""
        return next((one for one in self.containers if one.init and one.name == name), None)

    def condition(self, type_: str) -> Mapping[str, Any]:
        return fields.condition(self.item, type_)


_DEVICES = frozenset({"tpu", "gaudi", "neuron", "neuroncore", "i915", "xe"})


def is_accelerator(resource: str) -> bool:
    """Whether a resource's name is one of a GPU, a slice of a GPU, a TPU or a similar device."""
    vendor, _, name = resource.partition("/")
    return bool(name) and (
        name.startswith(("gpu", "mig-")) or name.endswith("gpu") or name in _DEVICES or vendor == "huawei.com"
    )


def read_pod(item: Object) -> Pod:
    """A Pod object as far as the rules ask for it."""
    return Pod(
        item=item,
        name=fields.name(item),
        cluster=fields.label(item, kuberay.CLUSTER),
        group=fields.label(item, kuberay.GROUP),
        head=fields.label(item, kuberay.NODE_TYPE) == kuberay.HEAD,
        node=fields.text(item, "spec", "nodeName"),
        ip=fields.text(item, "status", "podIP"),
        phase=fields.text(item, "status", "phase"),
        ready=fields.condition(item, "Ready").get("status") == "True",
        created=fields.created(item),
        deleted=fields.deleted(item),
        containers=_containers(item),
        requests=pod_requests(item),
        never_restarts=fields.text(item, "spec", "restartPolicy") == "Never",
    )


def _containers(item: Object) -> tuple[Container, ...]:
    found = []
    for init, specs, statuses in (
        (True, "initContainers", "initContainerStatuses"),
        (False, "containers", "containerStatuses"),
    ):
        by_name = {fields.text(spec, "name"): spec for spec in fields.items(item, "spec", specs)}
        for status in fields.items(item, "status", statuses):
            name = fields.text(status, "name")
            found.append(_container(status, init, by_name.get(name, {})))
    return tuple(found)


def _container(status: Mapping[str, Any], init: bool, spec: Mapping[str, Any]) -> Container:
    states = fields.mapping(status, "state")
    state = next((word for word in ("waiting", "running", "terminated") if fields.at(states, word) is not None), "")
    return Container(
        name=fields.text(status, "name"),
        init=init,
        image=fields.text(spec, "image") or fields.text(status, "image"),
        state=state,
        reason=fields.text(states, state, "reason"),
        message=fields.text(states, state, "message"),
        ready=fields.flag(status, "ready"),
        restarts=fields.integer(status, "restartCount"),
        started=fields.when(states, "running", "startedAt"),
        ended=_exit(states),
        last_ended=_exit(fields.mapping(status, "lastState")),
        spec=spec,
    )


def _exit(states: Mapping[str, Any]) -> Exit | None:
    ended = fields.mapping(states, "terminated")
    if not ended:
        return None
    return Exit(
        code=fields.integer(ended, "exitCode"),
        reason=fields.text(ended, "reason"),
        message=fields.text(ended, "message"),
        started=fields.when(ended, "startedAt"),
        finished=fields.when(ended, "finishedAt"),
    )

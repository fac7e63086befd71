"""Suspend and resume a service: it keeps objects, addresses, keys and history, but not its pods and GPUs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds.llmservice import CHANGE_DECLARED
from rayllm_ctl.model.events import Applied, Event, Noted, Observed
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import with_cluster_fields
from rayllm_ctl.model.kube.kuberay_versions import parse_version
from rayllm_ctl.model.kube.labels import SUSPENDER
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.observed.health import Snapshot, State
from rayllm_ctl.workflows.observe.wait import Look, looks_at, timed_out, wait_ready
from rayllm_ctl.workflows.rollout.applied_state import known_revisions, start_seconds
from rayllm_ctl.workflows.rollout.llmservice.change import change_declared, suspension_change
from rayllm_ctl.workflows.rollout.llmservice.declaration import Declaration, read_declaration
from rayllm_ctl.workflows.services import ServiceRef, read_live_service_ref

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_SUSPENDS = (1, 6)
"""The first version of KubeRay that applies spec.rayClusterConfig.suspend to the running RayCluster
(shouldUpdateCluster in ray-operator/controllers/ray/rayservice_controller.go; ray-project/kuberay#4686)."""


@dataclass(frozen=True)
class Suspension:
    """A service to suspend or resume. start_seconds: the start-up limit of its last plan.

    declaration: the LLMService that declares it; None: none does.
    """

    service: ServiceRef
    start_seconds: float
    declaration: Declaration | None = None


def prepare_suspension(cluster: Cluster, name: str, namespace: str) -> Suspension:
    """The service `name`. Raises NotFoundError, and UserError if KubeRay cannot suspend it now."""
    service = read_live_service_ref(cluster, name, namespace, "suspend", declared=CHANGE_DECLARED)
    if not service.kind.is_cluster:
        if service.kuberay and parse_version(service.kuberay) < _SUSPENDS:
            raise UserError(
                f"KubeRay {service.kuberay} cannot suspend a RayService: 1.6 or newer is required",
                hint=f"rayllm-ctl scale {name} -n {namespace} --min-replicas 0    # no workers run without requests",
            )
        if len(service.kind.clusters_of(service.live)) > 1:
            raise UserError(
                f"{service.label} is being upgraded: KubeRay would suspend only the RayCluster that is not serving yet",
                hint=f"rayllm-ctl wait {name} -n {namespace} --for ready    # first",
            )
    if declared_by(service.item) is not None:
        declaration = read_declaration(cluster, service.kind, service.live)
        return Suspension(service, declaration.start_seconds, declaration)
    return Suspension(service, start_seconds(known_revisions(service)))


def suspend(found: Suspension, *, wait: bool, timeout: float | None) -> Iterator[Event]:
    """Have KubeRay delete all pods of a service and, with `wait`, wait until they are gone.

    timeout: seconds; None: the start-up limit of its last plan. Raises WaitTimeoutError with the remaining pods.
    """
    service = found.service
    if found.declaration is not None:
        change = suspension_change(found.declaration, suspended=True)
        yield from change_declared(change, wait=False, timeout=None)
    else:
        yield from set_suspended(service, suspended=True)
    if not wait:
        return
    limit = found.start_seconds if timeout is None else timeout
    left, health = list[str](), None
    for seen in looks_at(service.cluster, service.kind, service.name, service.namespace, limit, None, service.around):
        if not isinstance(seen, Look):
            yield seen
            continue
        left, health = _pods(seen.snapshot), seen.health
        if health.state is State.NOT_FOUND:
            raise UserError(f"{service.label} was deleted while suspend was waiting for it")
        yield Observed(health, seen.elapsed)
        if health.state is State.SUSPENDED and not left:
            yield Noted(f"no pod of {service.name} is left; rayllm-ctl resume {service.name} -n {service.namespace}")
            return
    raise timed_out(f"{', '.join(left) or service.name} is still there", service.name, service.namespace, health, limit)


def resume(found: Suspension, *, wait: bool, timeout: float | None) -> Iterator[Event]:
    """Have KubeRay start the pods of a suspended service and, with `wait`, wait until it is Ready.

    timeout: seconds; None: as its last plan says. Raises as wait_ready does.
    """
    service, stored = found.service, found.service.live
    if found.declaration is not None:
        if not found.declaration.suspended:
            yield Noted(f"{found.declaration.label} is not suspended")
        yield from change_declared(suspension_change(found.declaration, suspended=False), wait=wait, timeout=timeout)
        return
    if not kuberay.is_suspended(stored):
        yield Noted(f"{service.label} is not suspended")
    else:
        stored = yield from set_suspended(service, suspended=False)
    if wait:
        limit = found.start_seconds if timeout is None else timeout
        yield from wait_ready(service.cluster, service.kind, stored, limit, around=service.around)


def set_suspended(service: ServiceRef, *, suspended: bool) -> Generator[Applied, None, dict[str, Any]]:
    """Apply the field; returns the stored object.

    Raises FieldConflictError if another client, such as Kueue, has set it differently.
    """
    field: dict[str, Any] = {"suspend": suspended}
    manifest = {
        "apiVersion": service.live["apiVersion"],
        "kind": service.kind.name,
        "metadata": {"name": service.name, "namespace": service.namespace},
        **with_cluster_fields(service.kind.name, field),
    }
    stored = service.live
    known = {(service.kind.name, service.name): service.item}
    for applied, item in apply(service.cluster, [manifest], field_manager=SUSPENDER, known=known):
        yield applied
        stored = item
    return stored


def _pods(snapshot: Snapshot) -> list[str]:
    """The remaining Ray pods, as in pod/qwen-head."""
    pods = [item["metadata"] for item in snapshot.of_kind("Pod")]
    return [f"pod/{one['name']}" for one in pods if kuberay.CLUSTER in (one.get("labels") or {})]

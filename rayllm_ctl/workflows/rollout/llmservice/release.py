"""A service that an LLMService declares becomes one of the command line again, without a restart.

The LLMService is deleted first, so that its controller no longer looks at the objects, and what belonged to it stays:
the garbage collector removes the references to it. Then rayllm-ctl applies the same objects, and the fields of the
controller are given up. The same command continues after the last step that was made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.managed_fields import is_applied_by
from rayllm_ctl.cluster.apply.revisions import revisions
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.kinds.llmservice import RELEASE
from rayllm_ctl.model.events import Applied, Noted
from rayllm_ctl.model.kube.labels import CONTROLLER, RAISED
from rayllm_ctl.model.kube.owned import DECLARING, declared_by
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.workflows.rollout.llmservice.adopt import give_up
from rayllm_ctl.workflows.rollout.llmservice.declaration import find_declaration, read_declaration
from rayllm_ctl.workflows.rollout.llmservice.spec import spec_digest
from rayllm_ctl.workflows.rollout.manifests import apply_rights, placed, was_suspended
from rayllm_ctl.workflows.rollout.shipped_code import restored
from rayllm_ctl.workflows.rollout.suspend import set_suspended
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref, require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_ORPHAN = "orphan"
"""The finalizer with which the garbage collector removes references to an object before that is gone."""

_GONE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class ServiceRelease:
    """A service that is to be released. declaration: the LLMService; None: it is gone already."""

    service: ServiceRef
    declaration: Mapping[str, Any] | None
    manifests: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...]


def prepare_release(cluster: Cluster, name: str, namespace: str) -> ServiceRelease:
    """The service `name` and the objects of its newest revision.

    Raises UserError if no LLMService declares it, and where it is not in a state that the command line can keep.
    """
    kind, live = require_service(cluster, name, namespace, RAY_SERVICE.rights_for("apply"))
    service = read_service_ref(cluster, kind, name, namespace, (), live)
    service.require_rights(RELEASE.needed)
    declaration = _declaration(service)
    known = revisions(cluster, name, namespace)
    if not known:
        raise UserError(
            f"{service.label} has no history: what the controller applied is not known", hint="kubectl get llms"
        )
    newest = known[-1]
    manifests, notes = restored(cluster, newest.manifests, namespace)
    service.require_rights(apply_rights(kind, manifests).needed)
    if RAISED in (live["metadata"].get("annotations") or {}):
        raise UserError(
            f"{service.label} is being changed: it has another replica until that is done",
            hint=f"rayllm-ctl wait {name} -n {namespace} --for ready    # first",
        )
    if declaration is not None and declaration["spec"].get("suspend") is True:
        raise UserError(f"{name} is suspended", hint=f"rayllm-ctl resume {name} -n {namespace}    # first")
    if declaration is not None and spec_digest(declaration["spec"]) != newest.digest:
        notes = (*notes, f"the spec as it is now was not applied: the service stays as revision {newest.number} has it")
    return ServiceRelease(service, declaration, [placed(item, namespace) for item in manifests], notes)


def release_service(found: ServiceRelease, *, dry_run: bool = False) -> Iterator[Applied | Noted]:
    """Delete the LLMService of a service and leave all else; nothing restarts.

    Raises UserError as `apply` does, and WaitTimeoutError if the LLMService does not go. What has been done stays,
    and the same release continues from there.
    """
    service, cluster = found.service, found.service.cluster
    yield from map(Noted, found.notes)
    # What the API server rejects is known before the LLMService is gone.
    for event, _ in apply(cluster, found.manifests, dry_run="server", force_conflicts=True):
        if dry_run:
            yield event
    if found.declaration is not None:
        if not dry_run:
            _delete(service, found.declaration)
        yield Applied(DECLARING, service.name, service.namespace, "deleted", dry_run)
    if dry_run:
        return
    stored = []
    for event, item in apply(cluster, found.manifests, force_conflicts=True):
        yield event
        stored.append(item)
    if was_suspended(service.live):
        yield from set_suspended(service, suspended=False)
    give_up(cluster, stored, CONTROLLER)
    yield Noted(f"{service.label} is a service of the command line now: rayllm-ctl deploy -f FILE changes it")


def _declaration(service: ServiceRef) -> Mapping[str, Any] | None:
    """The LLMService; None if it is gone and the service has not been given back yet."""
    name, namespace = service.name, service.namespace
    if declared_by(service.live) is None:
        if is_applied_by(service.live, CONTROLLER):
            return find_declaration(service.cluster, name, namespace, RELEASE)
        raise UserError(
            f"no LLMService declares {service.label}: it is a service of the command line already",
            hint=f"rayllm-ctl status {name} -n {namespace}",
        )
    item = find_declaration(service.cluster, name, namespace, RELEASE)
    if item is not None and _ORPHAN in (item["metadata"].get("finalizers") or ()):
        return item
    return read_declaration(service.cluster, service.kind, service.live, RELEASE).item


def _delete(service: ServiceRef, declaration: Mapping[str, Any]) -> None:
    """Delete the LLMService without its children, and wait until it is gone: no reference is left then."""
    cluster, name, namespace = service.cluster, service.name, service.namespace
    uid = declaration["metadata"]["uid"]
    deadline = time.monotonic() + _GONE_SECONDS
    try:
        if "deletionTimestamp" not in declaration["metadata"]:
            cluster.delete(DECLARING, name, namespace, uid=uid, orphan=True)
        while cluster.get(DECLARING, name, namespace)["metadata"]["uid"] == uid:
            if time.monotonic() >= deadline:
                raise WaitTimeoutError(
                    f"llmservice/{name} still exists after {format_duration(_GONE_SECONDS)}: the garbage collector of "
                    "Kubernetes has not removed the references to it",
                    hint=f"rayllm-ctl release {name} -n {namespace}    # continues",
                )
            time.sleep(_LOOK_SECONDS)
    except NotFoundError:
        return

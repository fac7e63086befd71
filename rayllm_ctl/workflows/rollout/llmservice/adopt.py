"""A service of the command line becomes one that an LLMService declares, without a restart.

Each step leaves a running service, and the same command continues after the last one that was made: the LLMService,
whose controller leaves the service alone as long as it is not its child; a revision with the digest of its spec, so
that the controller renders nothing; the objects, applied as the controller applies them; and the fields that rayllm-ctl
had applied, given up, so that what the controller removes later is gone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.inventory import inventory
from rayllm_ctl.cluster.apply.managed_fields import is_applied_by
from rayllm_ctl.cluster.apply.revisions import add_revision, revisions
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.kinds.llmservice import ADOPT
from rayllm_ctl.model.events import Applied, Checked, Noted
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.kube.labels import CONTROLLER, MANAGER, SUSPENDER
from rayllm_ctl.model.kube.owned import declared_by, is_owned_by, owned, owner_reference
from rayllm_ctl.model.kube.revisions import NOT_WAITED, Revision
from rayllm_ctl.model.observed.changes import Diff
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.load import load_stored
from rayllm_ctl.specfile.write import to_document
from rayllm_ctl.workflows.plan.figures import plan_figures
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.service import rendering_of
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions
from rayllm_ctl.workflows.rollout.diff import DiffOptions, diff_live
from rayllm_ctl.workflows.rollout.llmservice.declaration import find_declaration, manifest_of
from rayllm_ctl.workflows.rollout.llmservice.spec import require_controllable, revision_annotations, spec_digest
from rayllm_ctl.workflows.rollout.manifests import KEPT, apply_rights, placed, suspend_or_resume
from rayllm_ctl.workflows.rollout.outage import as_deployed
from rayllm_ctl.workflows.rollout.prerequisites import fit
from rayllm_ctl.workflows.rollout.shipped_code import restored
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref, require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_ENDING = frozenset({"restart", "new-cluster", "recreate", "rejected", "unknown"})
"""Effects of changes with which something that runs ends, or may."""


@dataclass(frozen=True)
class Adoption:
    """A service that is to be adopted. spec: of the LLMService. declaration: the LLMService; None: it is to be created.

    manifests: its objects. plan: as the status shows it. revisions: its history. diff: what adopting it changes.
    """

    service: ServiceRef
    spec: Mapping[str, Any]
    declaration: Mapping[str, Any] | None
    manifests: Sequence[Mapping[str, Any]]
    plan: Mapping[str, Any] | None
    revisions: Sequence[Revision]
    diff: Diff
    checks: tuple[Checked, ...] = ()


def prepare_adoption(
    cluster: Cluster, name: str, namespace: str, wanted: LLMService | None, options: RenderOptions
) -> Adoption:
    """The service `name`, for the LLMService that `wanted` describes; None: for the one that there is.

    Raises UserError if there is none, or another one, and where the service is not one to adopt.
    """
    kind, live = require_service(cluster, name, namespace, RAY_SERVICE.rights_for("apply"))
    service = read_service_ref(cluster, kind, name, namespace, (), live)
    service.require_rights((*kind.rights_for("apply").needed, *ADOPT.needed))
    declaration = find_declaration(cluster, name, namespace, ADOPT)
    spec = _spec(service, declaration, wanted)
    _require_adoptable(service, declaration, spec)
    item = manifest_of(name, namespace, spec)
    asked = load_stored(item)
    assert isinstance(asked, LLMService)
    require_controllable(asked)
    asked = replace(asked, namespace=namespace)
    known = revisions(cluster, name, namespace)
    plan = make_plan(asked, options.facts)
    checks: tuple[Checked, ...] = ()
    if known and known[-1].digest == spec_digest(spec):
        manifests, _ = restored(cluster, known[-1].manifests, namespace)
    else:
        how = replace(options, kuberay=VERSIONS[-1])
        made, checks = _exhausted(fit(service, rendering_of(asked, plan, how)))
        manifests = made.manifests
    service.require_rights(apply_rights(kind, manifests).needed)
    applied = inventory(cluster, name, namespace, KEPT)
    # Compared with what rayllm-ctl would apply: the fields that it gives up later are among the changes.
    diff = as_deployed(diff_live(service, [placed(one, namespace) for one in manifests], applied, DiffOptions()))
    return Adoption(service, spec, declaration, manifests, plan_figures(plan), known, diff, checks)


def require_no_restart(found: Adoption) -> None:
    """Raise UserError if something that runs would end, or an object would be left behind."""
    name, namespace = found.service.name, found.service.namespace
    deploy = f"rayllm-ctl deploy -f FILE -n {namespace}    # first: makes the change as --upgrade says"
    for item in found.diff.objects:
        if item.action == "deleted":
            raise UserError(
                f"{item.kind} {item.name} is not among the objects of the spec, and would have no owner; nothing was "
                "adopted",
                hint=deploy,
            )
        lost = sorted(_ENDING.intersection(item.effects)) + (["outage"] if item.outage else [])
        if item.action == "configured" and lost:
            raise UserError(
                f"{item.kind} {item.name} is not as the spec of {name} describes it ({', '.join(lost)}): adopting it "
                "would change running pods; nothing was adopted",
                hint=(deploy, f"rayllm-ctl diff -f FILE -n {namespace}    # what differs"),
            )


def adopt(found: Adoption, *, dry_run: bool = False) -> Iterator[Applied | Noted]:
    """Make the LLMService the owner of the objects of a service; nothing restarts.

    Raises UserError as `apply` does. What has been done stays, and the same adoption continues from there.
    """
    service, cluster = found.service, found.service.cluster
    owner = yield from _declared(found, dry_run)
    if not dry_run:
        _keep_revision(found, owner)
    # What runs the service last: until then its controller leaves all of it alone.
    children = sorted((owned(item, owner) for item in found.manifests), key=lambda one: one["kind"] in WORKLOADS)
    children = suspend_or_resume(children, service.live, suspended=False)
    stored = []
    for event, item in apply(
        cluster, children, dry_run="server" if dry_run else "none", field_manager=CONTROLLER, force_conflicts=True
    ):
        yield event
        stored.append(item)
    if dry_run:
        return
    give_up(cluster, stored, MANAGER)
    give_up(cluster, stored, SUSPENDER)
    yield Noted(
        f"llmservice/{service.name} declares the service now: change it with kubectl, or with rayllm-ctl as before"
    )


def give_up(cluster: Cluster, items: Sequence[Mapping[str, Any]], manager: str) -> None:
    """Apply nothing of objects, for a manager that has applied them: a field that no other one has set is removed."""
    # What runs the service last: it tells whether all the others have been given up.
    for item in sorted(items, key=lambda one: one["kind"] in WORKLOADS):
        if not is_applied_by(item, manager):
            continue
        metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid")}
        bare = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}
        for _ in apply(cluster, [bare], field_manager=manager, known={(item["kind"], metadata["name"]): dict(item)}):
            pass


def _spec(service: ServiceRef, declaration: Mapping[str, Any] | None, wanted: LLMService | None) -> Mapping[str, Any]:
    name, namespace = service.name, service.namespace
    if wanted is None:
        if declaration is None:
            raise UsageError(
                f"there is no LLMService {name} in namespace {namespace}: its spec is required",
                hint=f"rayllm-ctl adopt {name} -n {namespace} -f FILE",
            )
        return dict(declaration["spec"])
    spec: dict[str, Any] = to_document(wanted)["spec"]
    if declaration is not None and spec_digest(declaration["spec"]) != spec_digest(spec):
        raise UserError(
            f"LLMService {namespace}/{name} exists with another spec than the file",
            hint=(
                f"rayllm-ctl adopt {name} -n {namespace}    # with the spec that it has",
                "kubectl apply -f FILE    # gives it that of the file",
            ),
        )
    return spec if declaration is None else dict(declaration["spec"])


def _require_adoptable(service: ServiceRef, declaration: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> None:
    name, namespace = service.name, service.namespace
    reference = declared_by(service.live)
    if declaration is not None and "deletionTimestamp" in declaration["metadata"]:
        raise UserError(
            f"LLMService {namespace}/{name} is being deleted", hint=f"kubectl get llmservice -n {namespace}"
        )
    if reference is not None and (declaration is None or not is_owned_by(service.live, declaration)):
        raise UserError(
            f"{service.label} belongs to another LLMService, which is gone: Kubernetes is about to delete it",
            hint=f"rayllm-ctl status {name} -n {namespace}",
        )
    if reference is not None and not is_applied_by(service.live, MANAGER):
        raise UserError(f"llmservice/{name} declares {service.label} already", hint=f"kubectl get llmservice {name}")
    for field in ("suspend", "planOnly"):
        if spec.get(field) is True:
            raise UserError(f"spec.{field} is true: {service.label} runs", hint=f"remove spec.{field} to adopt it")
    if is_suspended(service.live):
        raise UserError(f"{service.label} is suspended", hint=f"rayllm-ctl resume {name} -n {namespace}    # first")


def _exhausted(steps: Generator[Checked, None, Rendering]) -> tuple[Rendering, tuple[Checked, ...]]:
    checks = []
    while True:
        try:
            checks.append(next(steps))
        except StopIteration as end:
            return end.value, tuple(checks)


def _declared(found: Adoption, dry_run: bool) -> Generator[Applied, None, Mapping[str, Any]]:
    """The LLMService, created if there is none."""
    if found.declaration is not None:
        return found.declaration
    service = found.service
    manifest = manifest_of(service.name, service.namespace, found.spec)
    stored: Mapping[str, Any] = manifest
    for event, stored in apply(  # noqa: B007  there is one
        service.cluster, [manifest], dry_run="server" if dry_run else "none", known={("LLMService", service.name): None}
    ):
        yield event
    return stored


def _keep_revision(found: Adoption, owner: Mapping[str, Any]) -> None:
    """A revision for the spec as it is stored, unless the newest one is that."""
    digest = spec_digest(owner["spec"])
    if found.revisions and found.revisions[-1].digest == digest:
        return
    last = found.revisions[-1] if found.revisions else None
    add_revision(
        found.service.cluster, found.service.name, found.service.namespace, found.manifests,
        change="adopted", outcome=NOT_WAITED, start_seconds=last.start_seconds if last else None, known=found.revisions,
        annotations=revision_annotations(digest, found.manifests, found.plan, way="", done=True),
        owner=owner_reference(owner), spec=owner["spec"],
    )  # fmt: skip

"""The LLMService that declares a service: read, and changed by server-side apply."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.apply.managed_fields import applied_manifest
from rayllm_ctl.errors import ConflictError, FieldConflictError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds.llmservice import CHANGE_DECLARED
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.kube.labels import ACCEPTED, MANAGER
from rayllm_ctl.model.kube.owned import DECLARING, declared_by
from rayllm_ctl.model.spec.service import API_VERSION
from rayllm_ctl.model.workload import Rights, WorkloadKind
from rayllm_ctl.workflows.observe.wait import START_SECONDS

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_TRIES = 3


@dataclass(frozen=True)
class Declaration:
    """An LLMService. kind: of the object that runs its service, which has the same name."""

    cluster: Cluster
    kind: WorkloadKind
    item: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.item["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.item["metadata"]["namespace"])

    @property
    def label(self) -> str:
        """As in llmservice/qwen."""
        return f"{DECLARING.lower()}/{self.name}"

    @property
    def suspended(self) -> bool:
        return self.item["spec"].get("suspend") is True

    @property
    def start_seconds(self) -> float:
        """How long a start takes, as its plan says."""
        plan = (self.item.get("status") or {}).get("plan") or {}
        return float(plan.get("startupSeconds") or START_SECONDS)


@dataclass(frozen=True)
class Writing:
    """How an LLMService is changed. manager: the field manager. accept: the user accepts what the change costs.

    unchanged: only if its spec is as it was read.
    """

    manager: str = MANAGER
    dry_run: bool = False
    force: bool = False
    accept: bool = False
    unchanged: bool = False


def read_declaration(
    cluster: Cluster, kind: WorkloadKind, live: dict[str, Any], rights: Rights = CHANGE_DECLARED
) -> Declaration:
    """The LLMService that declares the service of the object `live`. Raises UserError if it is gone or ending.

    rights: what the command needs, all named where the first is missing.
    """
    reference, metadata = declared_by(live), live["metadata"]
    if reference is None:
        raise LookupError(f"{metadata['name']} is not declared")
    name, namespace = str(reference["name"]), str(metadata["namespace"])
    item = find_declaration(cluster, name, namespace, rights)
    if item is None or item["metadata"]["uid"] != reference["uid"]:
        raise UserError(
            f"llmservice/{name}, which declares {kind.name.lower()}/{metadata['name']}, is gone: Kubernetes is about "
            "to delete the service",
            hint=f"rayllm-ctl status {name} -n {namespace}",
        )
    return _standing(Declaration(cluster, kind, item))


def read_new_declaration(cluster: Cluster, kind: WorkloadKind, name: str, namespace: str) -> Declaration | None:
    """The LLMService `name`, whose service has no object yet; None if there is none. kind: of that object.

    Raises UserError if it is ending, and ForbiddenError if it cannot be read.
    """
    try:
        item = cluster.get(DECLARING, name, namespace)
    except NotFoundError:
        return None
    return _standing(Declaration(cluster, kind, item))


def _standing(found: Declaration) -> Declaration:
    """Raise UserError if the LLMService is ending."""
    if "deletionTimestamp" in found.item["metadata"]:
        raise UserError(
            f"{found.label} is being deleted",
            hint=f"rayllm-ctl wait {found.name} -n {found.namespace} --for deleted",
        )
    return found


def find_declaration(cluster: Cluster, name: str, namespace: str, rights: Rights) -> dict[str, Any] | None:
    """The LLMService `name`; None if there is none, or the cluster does not serve the kind."""
    try:
        with explained(cluster, namespace, rights):
            return cluster.get(DECLARING, name, namespace)
    except NotFoundError:
        return None


def manifest_of(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An LLMService, or those of its fields that are to be applied."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": DECLARING, "metadata": metadata, "spec": dict(spec)}


def own_fields(declaration: Declaration) -> dict[str, Any]:
    """What rayllm-ctl applied of an LLMService: an apply that leaves some of it out would remove that."""
    found = applied_manifest(declaration.item) or {}
    return manifest_of(declaration.name, declaration.namespace, found.get("spec") or {})


def write(
    declaration: Declaration, manifest: Mapping[str, Any], how: Writing
) -> Generator[Applied, None, dict[str, Any]]:
    """Apply `manifest`; returns the LLMService as it is stored then, or would be.

    What is accepted is the cost of exactly the generation that this makes: the API server rejects the apply if the
    object has changed since. Raises FieldConflictError if other managers have set fields that would change, and
    UserError if the API server rejects it.
    """
    if how.dry_run or not (how.accept or how.unchanged):
        return (yield from _apply(declaration, manifest, how, None))
    for attempt in range(_TRIES):
        try:
            return (
                yield from _apply(declaration, _accepting(declaration, manifest, how), how, _generation(declaration))
            )
        except FieldConflictError:
            raise
        except ConflictError:
            # A status that was written in between is not a change of the spec, which the generation tells.
            if attempt == _TRIES - 1:
                raise
    raise AssertionError


def _accepting(declaration: Declaration, manifest: Mapping[str, Any], how: Writing) -> Mapping[str, Any]:
    """`manifest` with the annotation that accepts what the generation costs that its apply makes."""
    if not how.accept:
        return manifest
    would = apply(
        declaration.cluster, [manifest], dry_run="server", force_conflicts=how.force, field_manager=how.manager,
        unchanged={DECLARING: _generation(declaration)},
    )  # fmt: skip
    generation = next(item for _, item in would)["metadata"]["generation"]
    metadata = {**manifest["metadata"], "annotations": {ACCEPTED: str(generation)}}
    return {**manifest, "metadata": metadata}


def _apply(
    declaration: Declaration, manifest: Mapping[str, Any], how: Writing, generation: int | None
) -> Generator[Applied, None, dict[str, Any]]:
    stored = declaration.item
    for event, stored in apply(  # noqa: B007  there is one
        declaration.cluster,
        [manifest],
        dry_run="server" if how.dry_run else "none",
        force_conflicts=how.force,
        field_manager=how.manager,
        unchanged=None if generation is None else {DECLARING: generation},
        known={} if generation is not None else {(DECLARING, declaration.name): declaration.item},
    ):
        yield event
    return stored


def _generation(declaration: Declaration) -> int:
    return int(declaration.item["metadata"].get("generation") or 0)

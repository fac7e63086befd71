"""Changes of a service that an LLMService declares: its spec is written, and the controller does the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Event as Stop
from typing import TYPE_CHECKING, Any

from rayllm_ctl import __version__
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.errors import ConflictError, FieldConflictError, UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Applied, Noted, Observed, Ready
from rayllm_ctl.model.kube.labels import SUSPENDER
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.spec.ray_options import Way
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.load import load_stored
from rayllm_ctl.specfile.write import to_document
from rayllm_ctl.workflows.rollout.llmservice.declaration import Declaration, Writing, manifest_of, own_fields, write
from rayllm_ctl.workflows.rollout.llmservice.spec import require_controllable
from rayllm_ctl.workflows.rollout.llmservice.wait import wait_declared

if TYPE_CHECKING:
    from rayllm_ctl.model.kube.scaling import Bounds

ChangeEvent = Applied | Noted | Observed | Ready

RENDER_VERSION = "renderVersion"

_NOT_OF_A_REVISION = ("suspend", "rollout")
"""Fields of a spec that a rollback does not take from the revision."""

_BOUNDS = frozenset({"count", "min", "max"})


@dataclass(frozen=True)
class DeclaredChange:
    """A change of an LLMService that is to be made. consents: the command has --accept-outage. notes: what to know of
    it.
    """

    declaration: Declaration
    manifest: Mapping[str, Any]
    writing: Writing = Writing()
    consents: bool = False
    notes: tuple[str, ...] = ()

    def written(self, *, dry_run: bool = False, force: bool = False, accept: bool = False) -> DeclaredChange:
        """The same change, as the flags of a command say; see Writing."""
        how = replace(self.writing, dry_run=dry_run, force=force or self.writing.force, accept=accept)
        return replace(self, writing=how)


def change_declared(
    found: DeclaredChange, *, wait: bool, timeout: float | None, stop: Stop | None = None
) -> Iterator[ChangeEvent]:
    """Write the LLMService and, with `wait`, wait until its service is Ready; see `write` and `wait_declared`.

    timeout: seconds; None: as its plan says.
    """
    declaration = found.declaration
    yield from map(Noted, found.notes)
    yield Noted(f"{declaration.label} declares the service: it is changed, and its controller does the rest")
    stored = yield from write(declaration, found.manifest, found.writing)
    if found.writing.dry_run or not wait:
        return
    if (stored.get("spec") or {}).get("suspend") is True:
        yield Noted(
            f"{declaration.label} is suspended; rayllm-ctl resume {declaration.name} -n {declaration.namespace}"
        )
        return
    limit = declaration.start_seconds if timeout is None else timeout
    yield from wait_declared(declaration, stored, limit, consents=found.consents, stop=stop)


def deploy_change(declaration: Declaration, service: LLMService) -> DeclaredChange:
    """The LLMService with the spec of `service`, and the version that it was rendered for last. Raises UserError for a
    spec that only the command line can read.
    """
    require_controllable(service)
    spec = to_document(service)["spec"]
    if RENDER_VERSION in declaration.item["spec"]:
        spec.setdefault(RENDER_VERSION, declaration.item["spec"][RENDER_VERSION])
    return DeclaredChange(declaration, manifest_of(declaration.name, declaration.namespace, spec), consents=True)


def reject_flags(declaration: Declaration, flags: Mapping[str, bool]) -> None:
    """Raise UsageError for what a controller does not take. flags: whether each was given."""
    given = ", ".join(flag for flag, is_given in flags.items() if is_given)
    if given:
        raise UsageError(
            f"{declaration.label} declares the service, and its controller does not take {given}",
            hint=f"remove {given}",
        )


def without_force(error: FieldConflictError) -> ConflictError:
    """The error of a command that takes nothing over from another manager of an LLMService."""
    return ConflictError(error.message, hint=error.hints)


def current_service(declaration: Declaration) -> LLMService:
    """What the LLMService asks for now. Raises UserError if it is not valid."""
    return _as_service(declaration, declaration.item["spec"])


def scale_change(declaration: Declaration, model: int | None, bounds: Bounds) -> DeclaredChange:
    """The LLMService with other bounds of a model. model: its position in spec.models; None: it has one model.

    Raises UserError if the spec is not valid with them.
    """
    stored = declaration.item["spec"]
    manifest = own_fields(declaration)
    own = manifest["spec"]
    if model is None:
        own["replicas"] = _replicas(stored, own, bounds)
        others = {key: value for key, value in (stored.get("replicas") or {}).items() if key not in _BOUNDS}
        checked: dict[str, Any] = {"replicas": {**others, **own["replicas"]}}
    else:
        # The items of a list are applied together.
        models = [dict(one) for one in stored["models"]]
        models[model]["replicas"] = _replicas(models[model], models[model], bounds)
        own["models"] = models
        checked = {"models": models}
    _as_service(declaration, {**stored, **checked})
    return DeclaredChange(declaration, manifest, Writing(unchanged=True))


def rollback_change(declaration: Declaration, revision: Revision) -> DeclaredChange:
    """The LLMService with the spec of a revision. Raises UserError if the revision has none."""
    if revision.spec is None:
        raise UserError(
            f"revision {revision.number} was not made for {declaration.label}: it has no spec to go back to",
            hint=f"rayllm-ctl history {declaration.name} -n {declaration.namespace}",
        )
    spec = {key: value for key, value in revision.spec.items() if key not in _NOT_OF_A_REVISION}
    return DeclaredChange(declaration, manifest_of(declaration.name, declaration.namespace, spec), consents=True)


def with_rollout(change: DeclaredChange, way: Way) -> DeclaredChange:
    """`change`, rolled out as --upgrade of a command says. UserError: the controller does not do that."""
    if way == "auto":
        return change
    spec = {**change.manifest["spec"], "rollout": way}
    require_controllable(_as_service(change.declaration, spec))
    return replace(change, manifest={**change.manifest, "spec": spec})


def require_spec(change: DeclaredChange) -> None:
    """Raise ConflictError if the spec would not be that of `change` alone, as other managers have set more of it."""
    declaration = change.declaration
    would = apply(
        declaration.cluster, [change.manifest], dry_run="server", force_conflicts=change.writing.force,
        field_manager=change.writing.manager,
    )  # fmt: skip
    spec = next(item for _, item in would)["spec"]
    left = sorted(_more(spec, change.manifest["spec"], "spec") - {f"spec.{one}" for one in _NOT_OF_A_REVISION})
    if left:
        raise ConflictError(
            f"{declaration.label} would keep what another manager has set and the revision does not have: "
            f"{', '.join(left)}",
            hint="remove these fields where they are applied from",
        )


def suspension_change(declaration: Declaration, *, suspended: bool) -> DeclaredChange:
    """The LLMService with spec.suspend, which the next deploy leaves as it is."""
    manifest = manifest_of(declaration.name, declaration.namespace, {"suspend": suspended})
    return DeclaredChange(declaration, manifest, Writing(SUSPENDER, force=True))


def rerender_change(declaration: Declaration) -> DeclaredChange:
    """The LLMService with the version of rayllm-ctl as spec.renderVersion: the controller renders it again for that."""
    manifest = own_fields(declaration)
    notes: tuple[str, ...] = ()
    if declaration.item["spec"].get(RENDER_VERSION) == __version__:
        notes = (f"spec.{RENDER_VERSION} is {__version__} already: nothing is rendered again",)
    manifest["spec"][RENDER_VERSION] = __version__
    return DeclaredChange(declaration, manifest, Writing(force=True, unchanged=True), notes=notes)


def _replicas(stored: Mapping[str, Any], own: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    """The replicas of a model with other bounds: as a number where the spec has one."""
    given: Mapping[str, Any] = stored.get("replicas") or {}
    kept = {key: value for key, value in (own.get("replicas") or {}).items() if key not in _BOUNDS}
    if "count" not in given:
        return {**kept, "min": bounds.low, "max": bounds.high}
    if bounds.low == bounds.high:
        return {**kept, "count": bounds.low}
    if "count" in (own.get("replicas") or {}):
        return {**kept, "min": bounds.low, "max": bounds.high}
    raise UserError(
        f"spec.replicas.count is {given['count']}, set by another manager: a number, and no bounds",
        hint=f"--replicas {bounds.high}",
    )


def _as_service(declaration: Declaration, spec: Mapping[str, Any]) -> LLMService:
    try:
        found = load_stored({**declaration.item, "spec": spec})
    except UserError as error:
        raise UserError(f"{declaration.label}: {error.message}", hint=error.hints) from error
    assert isinstance(found, LLMService)
    return found


def _more(value: Any, wanted: Any, path: str) -> set[str]:
    """Paths of fields that `value` has and `wanted` does not."""
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        return set().union(
            *(_more(part, wanted[key], f"{path}.{key}") if key in wanted else {f"{path}.{key}"}
              for key, part in value.items())
        )  # fmt: skip
    return set() if value == wanted else {path}

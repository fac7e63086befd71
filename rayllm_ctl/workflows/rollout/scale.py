"""Change the replica bounds of a running service, without its spec file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.inventory import Inventory
from rayllm_ctl.cluster.apply.managed_fields import managers
from rayllm_ctl.errors import ConflictError, UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube.cluster_spec import cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.kube.owned import declared_by
from rayllm_ctl.model.kube.scaling import Bounds, Scaled, group_bounds, scaled_cluster, with_group_bounds
from rayllm_ctl.serveconfig import bounds as texts
from rayllm_ctl.serveconfig.applied import FIELD, applied_config, config_text
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout.applied_state import (
    applied_manifests,
    known_revisions,
    start_seconds,
)
from rayllm_ctl.workflows.rollout.llmservice.change import DeclaredChange, current_service, scale_change
from rayllm_ctl.workflows.rollout.llmservice.declaration import Declaration, read_declaration
from rayllm_ctl.workflows.services import ServiceRef, read_service_ref, require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.model.kube.revisions import Revision
    from rayllm_ctl.serveconfig.bounds import ScalableModel

HEAD_EXCLUDED = "excludeHeadPodFromServeSvc"

_MAIN_GROUPS = ("gpu", "cpu")
"""The worker group of the only model of a spec, named after its accelerator."""


@dataclass(frozen=True)
class Scaling:
    """A service with new bounds, to be applied. unchanged, service, applied, revisions: see DeployOptions.
    start_seconds: how long to wait.
    """

    rendering: Rendering
    change: str
    unchanged: Mapping[str, int]
    start_seconds: float
    service: ServiceRef
    applied: Inventory
    revisions: Sequence[Revision] | None


def prepare(
    cluster: Cluster, name: str, namespace: str, low: int | None, high: int | None, model: str | None
) -> Scaling | DeclaredChange:
    """The service `name` with `low` to `high` replicas of a model (None: unchanged).

    Raises NotFoundError, and UserError if the bounds are invalid or not in the form that rayllm-ctl renders.
    """
    rights = RAY_SERVICE.rights_for("apply")
    kind, item = require_service(cluster, name, namespace, rights)
    if declared_by(item) is not None:
        return _scaled_declaration(read_declaration(cluster, kind, item), low, high, model)
    service = read_service_ref(cluster, kind, name, namespace, rights.needed, item)
    known = known_revisions(service)
    (own, *others), applied = applied_manifests(service, known)
    _require_owned(service, own)
    if kind.is_cluster:
        what, scaled = "", _scaled_cluster(service, own, low, high, model)
    else:
        what, scaled = scaled_service(service, own, low, high, model)
    change = f"{what}{scaled.before} → {scaled.after} replicas"
    notes = [f"{what}{scaled.before} → {scaled.after} replicas" if scaled.before != scaled.after else
             f"{what}has {scaled.after} replicas already"]  # fmt: skip
    notes += [
        f"worker group {group}: {before} → {after} pods"
        for group, (before, after) in scaled.pods.items() if before != after
    ]  # fmt: skip
    others = [_with_budget(item, scaled) for item in others]
    notes += _budget_notes(others, scaled)
    if unknown := applied.unknown(namespace):
        notes.append(
            f"{unknown}: objects that rayllm-ctl applied of these for {name} are not changed, and not in its revision"
        )
    notes.append("the spec file is not changed: deploy -f FILE sets its bounds again")
    return Scaling(
        Rendering(name, namespace, (scaled.manifest, *others), tuple(notes), None),
        f"scale: {change}",
        {kind.name: int(item["metadata"].get("generation") or 0)},
        start_seconds(known),
        service,
        applied,
        known or None,
    )


def _scaled_declaration(
    declaration: Declaration, low: int | None, high: int | None, model: str | None
) -> DeclaredChange:
    """The LLMService that declares a service, with other bounds of a model."""
    service = current_service(declaration)
    index = _index(declaration.label, [one.id for one in service.models] or [service.model.id], model)
    given = service.models[index].replicas if service.models else service.replicas
    before = Bounds(given.min, given.max)
    after = _valid(declaration.label, before, low, high)
    notes = [f"{before} → {after} replicas" if before != after else f"has {after} replicas already"]
    notes.append("the spec file stays as it is: deploy -f FILE sets its bounds again")
    return replace(scale_change(declaration, index if service.models else None, after), notes=tuple(notes))


def _require_owned(service: ServiceRef, own: Mapping[str, Any]) -> None:
    """Raise ConflictError if another manager has taken over the fields with the bounds."""
    groups = (*service.kind.cluster_path, "workerGroupSpecs")
    for path in (groups,) if service.kind.is_cluster else (("spec", FIELD), groups):
        found: Any = own
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            others = ", ".join(managers(service.live, *path)) or "another client"
            raise ConflictError(
                f"{service.label}: {others} has set {'.'.join(path)}, which scale would change",
                hint="rayllm-ctl deploy -f FILE --force-conflicts    # takes it over, with the values of the file",
            )


def _scaled_cluster(
    service: ServiceRef, own: Mapping[str, Any], low: int | None, high: int | None, model: str | None
) -> Scaled:
    if model is not None:
        raise UsageError(f"{service.label} serves one model", hint="leave out --model")
    if low is None or low != high:
        raise UsageError(
            f"{service.label} has a fixed number of replicas: mode raycluster has no autoscaler",
            hint=f"rayllm-ctl scale {service.name} -n {service.namespace} --replicas {high or low or 1}",
        )
    try:
        return scaled_cluster(own, low)
    except ValueError as error:
        raise _not_ours(service, str(error)) from None


def scaled_service(
    service: ServiceRef, own: Mapping[str, Any], low: int | None, high: int | None, model: str | None
) -> tuple[str, Scaled]:
    """A RayService with at least `low` and at most `high` replicas of a model, whose id comes first.

    Raises UserError if the bounds are not valid or are not laid out as rayllm-ctl does.
    """
    if MODEL not in own["metadata"].get("annotations", {}):
        raise _not_ours(service, "it was deployed from a Serve configuration file")
    found = texts.models(applied_config(own))
    chosen = _chosen(service, found, model)
    before = chosen.bounds
    after = _valid(service.label, before, low, high)
    group, workers = worker_bounds(service, own, chosen)
    each = workers.high // before.high
    pods = (workers, Bounds(after.low * each, after.high * each))
    try:
        changed = texts.with_bounds(config_text(own), chosen, after)
    except ValueError as error:
        raise _not_ours(service, f"{FIELD}: {error}") from None
    config = cluster_spec(own)
    groups = with_group_bounds(config["workerGroupSpecs"], {group: pods[1]})
    manifest = with_cluster_spec(own, {**config, "workerGroupSpecs": groups})
    manifest["spec"] = {**manifest["spec"], FIELD: changed}
    if chosen.sole and after.low < before.low and after.low <= 1:
        # As in the planner: requests wait at the head for a single replica.
        manifest["spec"].pop(HEAD_EXCLUDED, None)
    return f"{chosen.id}: ", Scaled(manifest, before, after, {group: pods})


def _chosen(service: ServiceRef, found: list[ScalableModel], model: str | None) -> ScalableModel:
    if not found:
        raise _not_ours(service, "its Serve configuration has no model with replica bounds")
    return found[_index(service.label, [one.id for one in found], model)]


def _index(service: str, ids: Sequence[str], model: str | None) -> int:
    """The position of a model among those of a service; None is its only one."""
    if model is None:
        if len(ids) > 1:
            raise UsageError(
                f"{service} serves several models: {', '.join(ids)}", hint=f"--model {ids[0]}    # one of them"
            )
        return 0
    if model in ids:
        return ids.index(model)
    close = nearest(model, ids)
    raise UsageError(f"{service} serves no model {model}, but {', '.join(ids)}", hint=f"--model {close or ids[0]}")


def require_possible(low: int | None, high: int | None) -> None:
    """Raise UsageError for bounds that no service can have, whatever it has now."""
    if high is not None and high < 1:
        raise UsageError(
            f"at most {high} replicas: a model needs at least 1",
            hint=("--replicas 1", "--min-replicas 0 --max-replicas 1    # scales to zero, except in mode raycluster"),
        )
    if low is not None and high is not None and low > high:
        raise UsageError(
            f"the minimum of {low} replicas is greater than the maximum of {high}",
            hint=f"--min-replicas {low} --max-replicas {low}",
        )


def _valid(service: str, before: Bounds, low: int | None, high: int | None) -> Bounds:
    after = Bounds(before.low if low is None else low, before.high if high is None else high)
    if after.low > after.high:
        raise UsageError(
            f"the minimum of {after.low} replicas is greater than the maximum of {after.high}; "
            f"{service} has {before} now",
            hint=f"--min-replicas {after.low} --max-replicas {max(after.low, after.high)}",
        )
    return after


def worker_bounds(service: ServiceRef, manifest: Mapping[str, Any], model: ScalableModel) -> tuple[str, Bounds]:
    """The worker group of a model and its bounds, whose maximum is a multiple of the model's.

    Raises UserError if the bounds of the pods are not those that follow from the replicas.
    """
    groups = {
        str(group.get("groupName")): group_bounds(group)
        for group in cluster_spec(manifest).get("workerGroupSpecs") or ()
    }
    short = "" if model.sole else model.name.removeprefix(f"{service.name}-")
    name = next((one for one in (short, *_MAIN_GROUPS) if one in groups), None)
    if name is None:
        raise _not_ours(service, f"there is no worker group for model {model.id}")
    before = groups[name]
    each, rest = divmod(before.high, model.bounds.high)
    if rest or not each or before.low != model.bounds.low * each:
        raise _not_ours(service, f"the {before} pods of worker group {name} do not match {model.bounds} replicas")
    return name, before


def _with_budget(item: dict[str, Any], scaled: Scaled) -> dict[str, Any]:
    """`item` with as many fewer or more pods to keep, if it is a PodDisruptionBudget that lets one replica go."""
    spec = item.get("spec") or {}
    if item["kind"] != "PodDisruptionBudget" or len(scaled.pods) != 1:
        return item
    ((before, after),) = scaled.pods.values()
    each = before.high // scaled.before.high
    if spec.get("minAvailable") != before.low - each:
        return item
    return {**item, "spec": {**spec, "minAvailable": max(0, after.low - each)}}


def _budget_notes(others: list[dict[str, Any]], scaled: Scaled) -> list[str]:
    most = max((after.high for _, after in scaled.pods.values()), default=0)
    return [
        f"the PodDisruptionBudget keeps {least} worker pods and there are at most {most}: "
        "a node with a worker can never be drained"
        for item in others if item["kind"] == "PodDisruptionBudget"
        if isinstance(least := (item.get("spec") or {}).get("minAvailable"), int) and least >= most
    ]  # fmt: skip


def _not_ours(service: ServiceRef, why: str) -> UserError:
    return UserError(
        f"{service.label} cannot be scaled: {why}",
        hint="change its replicas in the file that it was deployed from, then rayllm-ctl deploy -f FILE",
    )

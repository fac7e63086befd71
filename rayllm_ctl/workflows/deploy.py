"""Deploy: plan, render, check the cluster, apply, wait until the model answers. Every step is an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event as Stop
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import WORKLOADS, workload
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.events import Applied, Checked, Event, Noted, Planned, Rendered
from rayllm_ctl.model.kuberayversions import DEFAULT, VERSIONS, known_version
from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.model.workload import Right, Rights, WorkloadKind
from rayllm_ctl.workflows.applications import ServeFile, prepare
from rayllm_ctl.workflows.manifests import apply_rights, placed
from rayllm_ctl.workflows.wait import wait_ready

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


START_SECONDS = 600.0
"""How long to wait where no plan says how long a start takes."""


@dataclass(frozen=True)
class DeployOptions:
    """dry_run: "client" ends after rendering, "server" lets the API server check; neither writes anything.

    timeout: seconds to wait; None: the plan's limit. accept_risk: deploy a plan that is risky. model_config, offline,
    prices: where the facts of the plan come from, see workflows.plan. kuberay: the version that manifests are checked
    for where no cluster is asked, one of model.kuberayversions.VERSIONS.
    """

    dry_run: Literal["none", "client", "server"] = "none"
    wait: bool = True
    timeout: float | None = None
    force_conflicts: bool = False
    accept_risk: bool = False
    model_config: Path | None = None
    offline: bool = False
    prices: Path | None = None
    kuberay: str = DEFAULT


@dataclass(frozen=True)
class _Prepared:
    """What is decided before a cluster is asked. limit: seconds to wait. check: raises UserError where a version of
    KubeRay would reject the manifests. operator_namespace: from which the NetworkPolicy admits the operator, if there
    is one."""

    namespace: str | None
    manifests: Sequence[Mapping[str, Any]]
    events: tuple[Event, ...]
    limit: float
    check: Callable[[str], None]
    operator_namespace: str | None = None


def deploy(
    services: Sequence[LLMService | ServeFile],
    options: DeployOptions,
    connect: Callable[[], Cluster],
    stop: Stop | None = None,
) -> Iterator[Event | Rendered]:
    """Bring `services` up one after the other, yielding Planned, Rendered, Checked, Applied, Observed, Noted, Ready.

    All are planned and rendered before `connect` is called: what cannot run is rejected even where there is no cluster.
    `stop` ends a wait from another thread; what has been applied stays.

    Raises UserError: before anything is applied when a plan, the manifests or the cluster rule a service out; later as
    soon as it is known that it cannot become ready, or at the time-out.
    """
    prepared = [_prepare(service, options) for service in services]
    if options.dry_run == "client":
        for one in prepared:
            yield from one.events
            yield Rendered(tuple(dict(item) for item in one.manifests))
        return
    cluster = connect()
    for one in prepared:
        yield from one.events
        yield Rendered(tuple(dict(item) for item in one.manifests))
        yield from _roll_out(cluster, one, options, stop)
        if stop is not None and stop.is_set():
            return


def runs_a_service(event: Applied) -> bool:
    """Whether the applied object runs a service, and is not one of those next to it."""
    return event.kind in WORKLOADS


def _prepare(service: LLMService | ServeFile, options: DeployOptions) -> _Prepared:
    from rayllm_ctl.workflows.check import check, check_objects
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import manifests

    # Which version the cluster runs is known later; what the newest rejects cannot run anywhere.
    version = options.kuberay if options.dry_run == "client" else VERSIONS[-1]
    if isinstance(service, ServeFile):
        found = prepare(service, version)
        said = tuple(Noted(line) for line in (*found.notes, *found.explanation))
        return _Prepared(
            service.service.namespace,
            found.manifests,
            said,
            START_SECONDS,
            lambda running: check_objects(found.manifests, running),
        )
    plan = make_plan(
        service, model_config=options.model_config, offline=options.offline, prices=options.prices
    )  # fmt: skip
    rendered = manifests(plan, accept_risk=options.accept_risk, kuberay=version)
    network = plan.deployment.network if plan.deployment else None
    return _Prepared(
        service.namespace,
        rendered,
        (Planned(plan),),
        _limit(plan),
        lambda running: check(rendered, plan, running),
        network.operator_namespace if network else None,
    )


def _roll_out(cluster: Cluster, one: _Prepared, options: DeployOptions, stop: Stop | None) -> Iterator[Event]:
    from rayllm_ctl.cluster.apply import apply
    from rayllm_ctl.cluster.bounds import propagate_bounds
    from rayllm_ctl.cluster.prune import leftovers, prune, require_deletable
    from rayllm_ctl.cluster.serveservice import propagate_service

    namespace = one.namespace or cluster.namespace
    kind, manifest = workload(one.manifests)
    dry = options.dry_run == "server"
    for checked in _check(cluster, kind, manifest, namespace, _rights(kind, one.manifests, options)):
        yield checked
        if checked.name == "KubeRay" and checked.ok:
            yield from _check_for(checked.detail, one)
    yield from _check_surroundings(cluster, one, namespace)
    # Pods of the old Ray cluster of an upgrade may still mount a ConfigMap of an earlier spec.
    kept = {*WORKLOADS, "ConfigMap"}
    surplus = leftovers(cluster, one.manifests, manifest["metadata"]["name"], namespace, kept=kept)
    require_deletable(cluster, surplus, namespace)
    stored: dict[str, Any] = {}
    for applied, item in apply(
        cluster,
        [placed(item, namespace) for item in one.manifests],
        dry_run="server" if dry else "none",
        force_conflicts=options.force_conflicts,
    ):
        yield applied
        if applied.kind == kind.name:
            stored = item
    yield from prune(cluster, surplus, dry_run=dry)
    if dry:
        return
    yield from propagate_bounds(cluster, kind, stored)
    yield from propagate_service(cluster, kind, stored)
    if options.wait:
        limit = options.timeout if options.timeout is not None else one.limit
        yield from wait_ready(cluster, kind, stored, limit, stop=stop)


def _rights(kind: WorkloadKind, manifests: Sequence[Mapping[str, Any]], options: DeployOptions) -> Rights:
    """Every right that this deployment will need, and those without which it can show less."""
    from rayllm_ctl.cluster.serveservice import RIGHTS as SERVE_SERVICE

    rights = apply_rights(kind, manifests)
    if options.dry_run == "server":
        return rights
    if any(_asks_for_a_token(item) for item in manifests):
        rights |= Rights(display=(Right("get", "Secret"),))
    if any((item.get("spec") or {}).get("serveService") for item in manifests):
        rights |= Rights(SERVE_SERVICE)
    rights |= kind.rights_for("bounds")
    return rights | kind.rights_for("follow") if options.wait else rights


def _asks_for_a_token(manifest: Mapping[str, Any]) -> bool:
    config = (manifest.get("spec") or {}).get("rayClusterConfig") or {}
    return kuberay.token_secret({"metadata": manifest["metadata"], "spec": config}) is not None


def _check(
    cluster: Cluster, kind: WorkloadKind, manifest: Mapping[str, Any], namespace: str, rights: Rights
) -> Iterator[Checked]:
    """Whether the cluster can take the service at all: KubeRay, namespace, rights; and the capacity for a new one."""
    from rayllm_ctl.cluster.nodes import all_nodes
    from rayllm_ctl.cluster.preflight import preflight
    from rayllm_ctl.health.capacity import capacity_check

    checks, existing = preflight(cluster, kind, manifest["metadata"]["name"], namespace, rights)
    yield from checks
    if existing is not None:
        return  # what a service holds already is not free, and would be counted as missing
    found = all_nodes(cluster)
    yield (
        Checked("capacity", None, "not permitted to list nodes") if found is None else capacity_check(manifest, *found)
    )


def _check_surroundings(cluster: Cluster, one: _Prepared, namespace: str) -> Iterator[Checked]:
    """Whether the cluster can take the objects next to the service."""
    from rayllm_ctl.cluster.requirements import check_operator_namespace, require_kinds

    require_kinds(cluster, one.manifests, namespace)
    if one.operator_namespace is not None:
        yield from check_operator_namespace(cluster, one.operator_namespace)


def _check_for(running: str, one: _Prepared) -> Iterator[Checked]:
    """Whether the version of KubeRay that runs in the cluster knows all that is in the manifests."""
    version, note = known_version(running)
    one.check(version)
    if note:
        yield Checked("manifests", None, note)


def _limit(plan: Plan) -> float:
    """Seconds to wait when the user set none: what the plan gives the start-up, and ten minutes where it knows none."""
    return float(plan.startup.wait_seconds) if plan.startup else START_SECONDS

"""Deploy: check the cluster, apply the manifests, wait until the model answers. Every step is an event."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rayllm_ctl.model.events import Applied, Checked, Event, Noted
from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.workflows.chat import endpoint_url
from rayllm_ctl.workflows.render import manifests as make_manifests
from rayllm_ctl.workflows.wait import wait_ready

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class DeployOptions:
    """timeout: seconds to wait; None: the plan's limit. dry_run_server: the API server only checks."""

    dry_run_server: bool = False
    wait: bool = True
    timeout: float | None = None
    force_conflicts: bool = False
    accept_risk: bool = False


def deploy(cluster: Cluster, service: LLMService, plan: Plan, options: DeployOptions) -> Iterator[Event]:
    """Apply `service` and wait until it is Ready, yielding events.

    Raises UserError: before anything is applied when the plan, the manifests or the cluster rule it out; afterwards as
    soon as it is known that the service cannot become ready, or at the time-out.
    """
    service = dataclasses.replace(service, namespace=service.namespace or cluster.namespace)
    objects = make_manifests(plan, accept_risk=options.accept_risk)
    yield from check(cluster, service, objects)
    yield from put(cluster, service, objects, options)
    if options.wait and not options.dry_run_server:
        limit = options.timeout if options.timeout is not None else _limit(plan)
        namespace = service.namespace or cluster.namespace
        yield from wait_ready(cluster, service.name, namespace, limit)
        yield Noted(f"chat      rayllm-ctl chat {service.name} -n {namespace}")
        yield Noted(f"endpoint  {endpoint_url(service.name, namespace)} (in the cluster)")


def check(cluster: Cluster, service: LLMService, objects: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    """Whether the cluster can take the service at all: KubeRay, namespace, rights; and room, for one that is new."""
    from rayllm_ctl.cluster.failures import NotFoundError
    from rayllm_ctl.cluster.nodes import all_nodes
    from rayllm_ctl.cluster.preflight import preflight
    from rayllm_ctl.health.capacity import capacity_check

    namespace = service.namespace or cluster.namespace
    yield from preflight(cluster, namespace)
    manifest = next(item for item in objects if item["kind"] == "RayService")
    try:
        cluster.get("RayService", service.name, namespace)
    except NotFoundError:
        found = all_nodes(cluster)
        yield (
            Checked("capacity", None, "nodes may not be listed") if found is None else capacity_check(manifest, *found)
        )
    # What a service holds already is not free, and would be counted as missing.


def put(
    cluster: Cluster, service: LLMService, objects: Sequence[Mapping[str, Any]], options: DeployOptions
) -> Iterator[Applied]:
    """Apply `objects`; changed replica bounds go to the live RayCluster as well: KubeRay does not carry them."""
    from rayllm_ctl.cluster.apply import apply, propagate_bounds

    yield from apply(
        cluster,
        objects,
        dry_run="server" if options.dry_run_server else "none",
        force_conflicts=options.force_conflicts,
    )
    if not options.dry_run_server:
        for manifest in objects:
            if manifest["kind"] == "RayService":
                yield from propagate_bounds(cluster, service.name, service.namespace or cluster.namespace, manifest)


def _limit(plan: Plan) -> float:
    """Seconds to wait when the user set none: what the plan gives the start-up, and ten minutes where it knows none."""
    return float(plan.startup.wait_seconds) if plan.startup else 600.0

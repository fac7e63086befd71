"""What stands next to the object that runs a service: ways in, limits on who connects, budgets, monitors.

Read against KubeRay 1.6.2 (ray-operator/controllers/ray/common/service.go, utils/dashboardclient), Kubernetes 1.36
(pkg/controller/disruption) and the Gateway API 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.kube.quantities import whole_duration
from rayllm_ctl.model.plan.deployment import Deployment
from rayllm_ctl.model.plan.surroundings import Entrance, HTTPRoute, NetworkRules, Scraping
from rayllm_ctl.model.spec.exposure import Exposure, Gateway
from rayllm_ctl.model.spec.operations import Monitor
from rayllm_ctl.model.spec.security import NetworkPeer, Security

SAME_NAMESPACE: Mapping[str, Any] = {"podSelector": {}}
"""The peer that is all pods of the policy's namespace."""


def entrance(exposure: Exposure) -> Entrance:
    """How clients reach the service."""
    return Entrance(
        exposure.type,
        exposure.annotations,
        exposure.source_ranges,
        exposure.ingress,
        None if exposure.gateway is None else _route(exposure.gateway),
    )


def network_rules(security: Security) -> NetworkRules | None:
    """Who may connect to the pods; None: everybody."""
    if security.network != "restricted":
        return None
    clients = tuple(_peer(peer) for peer in security.allow_from) or (SAME_NAMESPACE,)
    dashboard = tuple(_peer(peer) for peer in security.allow_dashboard_from)
    scrapers = tuple(_peer(peer) for peer in security.allow_metrics_from)
    return NetworkRules(security.operator_namespace, clients, dashboard, scrapers)


def scraping(monitor: Monitor | None) -> Scraping | None:
    """A monitor, with its interval as Prometheus writes it."""
    return None if monitor is None else Scraping(monitor.labels, _duration(monitor.interval))


def surroundings_notes(deployment: Deployment) -> Iterator[str]:
    """What a reader of the plan should know of these objects, and of options that limit each other."""
    budget = deployment.pod_disruption_budget
    # Its selector is the label of all workers of the service.
    most = sum(group.max_workers for group in deployment.worker_groups)
    if budget is not None and budget.min_available >= most:
        yield (
            f"the PodDisruptionBudget keeps {budget.min_available} worker pods and there are at most {most}: "
            "a node with a worker can never be drained"
        )
    if deployment.ray.fault_tolerance is not None and not deployment.proxies.on_workers:
        yield (
            "while the head restarts spec.ray.faultTolerance keeps the replicas, but requests fail: with "
            "spec.serve.proxyLocation HeadOnly all of them go through the head"
        )
    if deployment.network is not None:
        yield (
            "the NetworkPolicy also applies to the API server's proxy: where its address is not in "
            "spec.security.allowFrom, rayllm-ctl chat and endpoint cannot connect; where it is not in "
            "spec.security.allowDashboardFrom, dashboard cannot connect and status does not see Serve's replicas"
        )


def _route(gateway: Gateway) -> HTTPRoute:
    return HTTPRoute(
        gateway.name, gateway.namespace, gateway.section_name, gateway.hostnames, _duration(gateway.request_timeout)
    )


def _peer(peer: NetworkPeer) -> Mapping[str, Any]:
    parts = {
        "podSelector": peer.pod_selector,
        "namespaceSelector": peer.namespace_selector,
        "ipBlock": peer.ip_block,
    }
    return {key: dict(part) for key, part in parts.items() if part is not None}


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else whole_duration(seconds)

"""What stands next to the object that runs a service: ways in, limits on who connects, budgets, monitors.

Read against KubeRay 1.6.2 (ray-operator/controllers/ray/common/service.go, utils/dashboardclient), Kubernetes 1.36
(pkg/controller/disruption) and the Gateway API 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model import kuberay
from rayllm_ctl.model.deployment import Backend, Deployment, NetworkRules, Scraping, Surroundings
from rayllm_ctl.model.operations import Monitor
from rayllm_ctl.model.quantities import whole_duration
from rayllm_ctl.model.security import NetworkPeer, Security
from rayllm_ctl.model.service import LLMService

SAME_NAMESPACE: Mapping[str, Any] = {"podSelector": {}}
"""The peer that is all pods of the policy's namespace."""


def surroundings(service: LLMService) -> Surroundings:
    """The objects next to the one that runs `service`."""
    gateway, budget = service.exposure.gateway, service.availability.pod_disruption_budget
    timeout = gateway.request_timeout if gateway is not None else None
    return Surroundings(
        exposure=service.exposure,
        backend=Backend(kuberay.serve_service(service.name), kuberay.SERVE_PORT),
        route_timeout=None if timeout is None else whole_duration(timeout),
        network=_network_rules(service.security) if service.security.network == "restricted" else None,
        min_available=budget.min_available if budget is not None else None,
        pod_monitor=_scraping(service.monitoring.pod_monitor),
        service_monitor=_scraping(service.monitoring.service_monitor),
    )


def surroundings_notes(deployment: Deployment) -> Iterator[str]:
    """What a reader of the plan should know of them."""
    around, most = deployment.around, deployment.worker.max_workers
    if around.min_available is not None and around.min_available >= most:
        yield (
            f"the PodDisruptionBudget keeps {around.min_available} worker pods and there are at most {most}: "
            "a node with a worker can never be drained"
        )
    if around.network is not None:
        yield (
            "the NetworkPolicy also applies to the API server's proxy: where its address is not in "
            "spec.security.allowFrom, rayllm-ctl chat and endpoint cannot connect"
        )


def _network_rules(security: Security) -> NetworkRules:
    clients = tuple(_peer(peer) for peer in security.allow_from) or (SAME_NAMESPACE,)
    return NetworkRules(
        security.operator_namespace, clients, tuple(_peer(peer) for peer in security.allow_metrics_from)
    )


def _peer(peer: NetworkPeer) -> Mapping[str, Any]:
    parts = {
        "podSelector": peer.pod_selector,
        "namespaceSelector": peer.namespace_selector,
        "ipBlock": peer.ip_block,
    }
    return {key: dict(part) for key, part in parts.items() if part is not None}


def _scraping(monitor: Monitor | None) -> Scraping | None:
    if monitor is None:
        return None
    return Scraping(monitor.labels, None if monitor.interval is None else whole_duration(monitor.interval))

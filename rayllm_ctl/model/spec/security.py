"""Security of the service: permissions of its pods, and clients that may connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from rayllm_ctl.frozen import dataclass

PodSecurity = Literal["restricted", "baseline", "privileged"]
NetworkAccess = Literal["open", "restricted"]


@dataclass(frozen=True)
class NetworkPeer:
    """Clients, as a NetworkPolicy names them: pods by label selectors, or addresses."""

    pod_selector: Annotated[Mapping[str, Any] | None, "Label selector of pods; {} selects all."] = None
    namespace_selector: Annotated[
        Mapping[str, Any] | None, "Label selector of their namespaces; by default that of the service."
    ] = None
    ip_block: Annotated[Mapping[str, Any] | None, "`cidr` and `except`, instead of selectors."] = None


@dataclass(frozen=True)
class Security:
    """Security of the pods, and of the connections to them."""

    pod_security: Annotated[
        PodSecurity,
        "Level of the Pod Security Standards that the pods satisfy. baseline: for images that must run as root. "
        "privileged: for hostPath volumes.",
    ] = "restricted"
    network: Annotated[
        NetworkAccess, "Who may connect to the pods. open: everybody. restricted: only those named here."
    ] = "open"
    allow_from: Annotated[
        tuple[NetworkPeer, ...], "Clients of the OpenAI port; by default all pods of the namespace."
    ] = ()
    allow_dashboard_from: Annotated[
        tuple[NetworkPeer, ...],
        "Clients of Ray's dashboard, who can run code in the cluster; the API server for rayllm-ctl status.",
    ] = ()
    allow_metrics_from: Annotated[tuple[NetworkPeer, ...], "Clients of the metrics ports: Prometheus."] = ()
    operator_namespace: Annotated[str, "Namespace of the KubeRay operator, which needs Ray's ports."] = "kuberay-system"

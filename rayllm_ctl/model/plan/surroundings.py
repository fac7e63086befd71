"""Ingress, NetworkPolicy and scrape objects of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.exposure import Ingress, ServiceType
from rayllm_ctl.model.spec.pod_options import KeyOf


@dataclass(frozen=True)
class Backend:
    """Backend of an Ingress or an HTTPRoute."""

    service: Annotated[str, "Service at which the OpenAI API answers."]
    port: Annotated[int, "Its port, which is that of the pods as well."]


@dataclass(frozen=True)
class HTTPRoute:
    """An HTTPRoute that is attached to a Gateway."""

    name: Annotated[str, "Name of the Gateway."]
    namespace: Annotated[str | None, "Namespace of the Gateway; with null, that of the service."]
    section_name: Annotated[str | None, "Name of the listener; with null, all that admit the route."]
    hostnames: Annotated[tuple[str, ...], "Host names; if empty, those of the listener."]
    request_timeout: Annotated[str | None, "Longest duration of a request; 0s: no limit; null: the Gateway's own."]


@dataclass(frozen=True)
class Entrance:
    """How clients reach the service."""

    type: Annotated[ServiceType, "Type of KubeRay's Service."]
    annotations: Annotated[Mapping[str, str], "Annotations of KubeRay's Service."]
    source_ranges: Annotated[tuple[str, ...], "Addresses (CIDR) that the load balancer admits; if empty, all."]
    ingress: Annotated[Ingress | None, "An Ingress; null for none."]
    gateway: Annotated[HTTPRoute | None, "An HTTPRoute of the Gateway API; null for none."]


@dataclass(frozen=True)
class NetworkRules:
    """Who may connect to the pods, as the peers of a NetworkPolicy. The pods of the service may in any case."""

    operator_namespace: Annotated[str, "Namespace of the KubeRay operator."]
    clients: Annotated[tuple[Mapping[str, Any], ...], "Clients of the OpenAI port."]
    dashboard_clients: Annotated[tuple[Mapping[str, Any], ...], "Clients of Ray's dashboard."]
    scrapers: Annotated[tuple[Mapping[str, Any], ...], "Clients of the metrics ports."]


@dataclass(frozen=True)
class RedisServer:
    """A small Redis next to the service, in which the gateway counts limits."""

    name: Annotated[str, "Name of its Deployment and Service."]
    image: Annotated[str, "Its image."]
    port: Annotated[int, "Its port."]
    password: Annotated[KeyOf, "Key of a Secret with its password."]


@dataclass(frozen=True)
class Scraping:
    """A PodMonitor or a ServiceMonitor."""

    labels: Annotated[Mapping[str, str], "Labels by which Prometheus selects the monitor."]
    interval: Annotated[str | None, "Scrape interval; with null, that of Prometheus."]

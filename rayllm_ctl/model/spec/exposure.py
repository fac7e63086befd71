"""How clients outside the cluster's own network reach a service: its OpenAI port, and nothing else of Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.form import SECONDS, Wrapped

ServiceType = Literal["ClusterIP", "LoadBalancer"]


@dataclass(frozen=True)
class Ingress:
    """An Ingress for one host."""

    host: Annotated[str, "Host name of the endpoint; its first label may be `*`."]
    class_name: Annotated[str | None, "IngressClass; by default the cluster's default class."] = None
    path: Annotated[str, "Path prefix that is routed to the service. It is not removed from requests."] = "/"
    tls: Annotated[str | None, Wrapped("secretName"), "Secret with the certificate of the host."] = None
    annotations: Annotated[Mapping[str, str], "Annotations that the Ingress controller reads."] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class Gateway:
    """An HTTPRoute that is attached to a Gateway. TLS is configured at the Gateway's listener."""

    name: Annotated[str, "Name of the Gateway."]
    namespace: Annotated[str | None, "Namespace of the Gateway; by default that of the service."] = None
    section_name: Annotated[str | None, "Name of the listener; by default all that admit the route."] = None
    hostnames: Annotated[tuple[str, ...], "Host names; by default those of the listener."] = ()
    request_timeout: Annotated[
        float | None, SECONDS, "Longest duration of a request; 0: no limit; null: what the Gateway does by default."
    ] = 0.0


@dataclass(frozen=True)
class Exposure:
    """Type of the service's Kubernetes Service, and an Ingress or an HTTPRoute in front of it."""

    type: Annotated[ServiceType, "Type of the Service."] = "ClusterIP"
    annotations: Annotated[Mapping[str, str], "Annotations of the Service, such as those of a load balancer."] = field(
        default_factory=dict
    )
    source_ranges: Annotated[tuple[str, ...], "Addresses (CIDR) that the load balancer admits; by default all."] = ()
    ingress: Ingress | None = None
    gateway: Gateway | None = None

    @property
    def beyond_the_cluster(self) -> bool:
        """Whether something outside the service's namespace has to connect to it."""
        return self.type != "ClusterIP" or self.ingress is not None or self.gateway is not None

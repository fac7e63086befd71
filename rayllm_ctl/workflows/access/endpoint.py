"""The addresses of a service for clients outside the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.snapshot.exposure import collect_exposure
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE, WORKLOADS
from rayllm_ctl.model.observed.external import ExternalAddress, Reach
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.serveconfig.routes import routes_of
from rayllm_ctl.workflows.access.chat import Endpoint, endpoint_url

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True)
class Applications:
    """A service of the user's own Serve configuration: the address of each application in the cluster, by its name."""

    name: str
    namespace: str
    applications: Mapping[str, str]


@dataclass(frozen=True)
class External:
    """The addresses of a service outside the cluster. notes: why some could not be read."""

    external: tuple[ExternalAddress, ...] = ()
    notes: tuple[str, ...] = ()


def applications(service: Object) -> Applications:
    """The addresses of the applications of a live service. Raises UserError if none has a route."""
    metadata = service["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    routes = routes_of(service)
    if not routes.routes:
        raise UserError(
            f"no application of service {namespace}/{name} answers HTTP requests: none has a route_prefix",
            hint=f"rayllm-ctl serve-config {name} -n {namespace}",
        )
    urls = routes.urls(f"{RAY_SERVICE.serve_service(name)}.{namespace}")
    return Applications(name, namespace, dict(zip((route.application for route in routes.routes), urls, strict=True)))


def external(cluster: Cluster, address: Endpoint) -> tuple[Endpoint, External]:
    """`address` with the port of the service's object, and the objects that expose the service now."""
    kind = WORKLOADS[address.kind]
    try:
        workload = cluster.get(kind.name, address.name, address.namespace)
    except ForbiddenError as error:
        return address, External(notes=(f"external addresses could not be read: not permitted to {error.right}",))
    if kind is RAY_SERVICE:
        address = replace(address, url=endpoint_url(kind.name, address.name, address.namespace, routes_of(workload)))
    snapshot = collect_exposure(cluster, kind, workload)
    return address, External(kind.external(snapshot, address.name, address.namespace), snapshot.notes)


def external_url(where: Endpoint, exposed: External) -> str:
    """The first URL that can be used. Raises UserError, with the reasons, if there is none."""
    urls = [url for address in exposed.external if address.state is Reach.READY for url in address.urls]
    if urls:
        return urls[0]
    shown = f"service {where.namespace}/{where.name}"
    reasons = [
        f"  {external_address.object}: {external_address.state}: {external_address.message}"
        for external_address in exposed.external
    ]
    reasons += [f"  {note}" for note in exposed.notes]
    if reasons:
        raise UserError(
            "\n".join([f"{shown} has no usable external address:", *reasons]),
            hint=f"rayllm-ctl status {where.name} -n {where.namespace}",
        )
    raise UserError(
        f"{shown} is not exposed outside the cluster",
        hint=(
            "rayllm-ctl explain spec.exposure    # LoadBalancer, Ingress or HTTPRoute",
            f"rayllm-ctl port-forward {where.name} -n {where.namespace}",
        ),
    )

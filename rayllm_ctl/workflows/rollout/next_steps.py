"""How to use a ready service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds import RAY_SERVICE, workload
from rayllm_ctl.model.events import Ready
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.observed.external import Reach, format_external
from rayllm_ctl.serveconfig.routes import routes_of
from rayllm_ctl.workflows.access.chat import endpoint_url


def how_to_use(manifests: Sequence[Mapping[str, Any]], ready: Ready) -> Iterator[str]:
    """A line for each address of the service that `manifests` run; with a model also how to talk to it."""
    yield from _in_the_cluster(manifests, ready.name, ready.namespace)
    for address in ready.health.external:
        yield f"external  {format_external(address)}"
    if any(address.state is not Reach.READY for address in ready.health.external):
        yield f"          rayllm-ctl status {ready.name} -n {ready.namespace}   # whether they can be reached"


def _in_the_cluster(manifests: Sequence[Mapping[str, Any]], name: str, namespace: str) -> Iterator[str]:
    kind, manifest = workload(manifests)
    routes = routes_of(manifest)
    with_models = MODEL in manifest["metadata"].get("annotations", {})
    if with_models:
        yield f"chat      rayllm-ctl chat {name} -n {namespace}"
        yield f"endpoint  {endpoint_url(kind.name, name, namespace, routes)} (in the cluster)"
        yield f"          rayllm-ctl port-forward {name} -n {namespace}   # forwards a port of this machine to it"
        if kind is not RAY_SERVICE:
            return
    host = f"{RAY_SERVICE.serve_service(name)}.{namespace}"
    for route, url in zip(routes.routes, routes.urls(host), strict=True):
        if not (with_models and route.models):
            yield f"endpoint  {url} (in the cluster): application {route.application}"
    ports = kuberay.serve_ports(manifest)
    if "serve-grpc" in ports:
        yield f"endpoint  {host}:{ports['serve-grpc']} (in the cluster): gRPC"

"""How to use a service that is ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds import RAY_SERVICE, workload
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.labels import MODEL
from rayllm_ctl.workflows.chat import endpoint_url


def how_to_use(manifests: Sequence[Mapping[str, Any]], name: str, namespace: str) -> Iterator[str]:
    """A line for each address of the service that `manifests` run; with a model also how to talk to it."""
    _, manifest = workload(manifests)
    if MODEL in manifest["metadata"].get("annotations", {}):
        yield f"chat      rayllm-ctl chat {name} -n {namespace}"
        yield f"endpoint  {endpoint_url(name, namespace)} (in the cluster)"
        return
    host = f"{RAY_SERVICE.serve_service(name)}.{namespace}"
    ports = kuberay.serve_ports(manifest)
    for application, route in _routes(manifest["spec"]["serveConfigV2"]):
        yield f"endpoint  http://{host}:{ports['serve']}{route} (in the cluster): application {application}"
    if "serve-grpc" in ports:
        yield f"endpoint  {host}:{ports['serve-grpc']} (in the cluster): gRPC"


def _routes(serve_config: str) -> Iterator[tuple[str, str]]:
    """The applications that answer HTTP requests, and their route prefixes."""
    import yaml

    config = yaml.load(serve_config, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
    for application in config["applications"]:
        route = application.get("route_prefix", "/")
        if route is not None:
            yield application.get("name", "default"), route

"""HTTP to a pod behind a Service, with the user's own Authorization header; see cluster.api.port_forward."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.port_forward import forwarded
from rayllm_ctl.cluster.api.service_proxy import STREAM_TIMEOUT, service_error
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.kuberay import SERVE, SERVICE_NAME, served_by


@contextmanager
def open_stream(
    cluster: Cluster, namespace: str, service: str, path: str, json_body: Mapping[str, object], key: str
) -> Iterator[Iterator[str]]:
    """POST `json_body` with an API key to `path` of a Service; the lines of the answer as they arrive.

    Raises UserError: the Service has no ready pod, an error response, or an incomplete answer.
    """
    pod, port = ready_pods(cluster, namespace, service)[0]
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
    }
    with forwarded(cluster, pod, namespace, port) as sock:
        sock.settimeout(STREAM_TIMEOUT)
        connection = http.client.HTTPConnection(service, port)
        connection.sock = sock
        try:
            connection.request("POST", path, json.dumps(json_body).encode(), headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise service_error(answer.status, answer.read().decode("utf-8", "replace"), namespace, service)
            yield (line.decode("utf-8", "replace").rstrip("\r\n") for line in answer if line.strip())
        except (OSError, http.client.HTTPException) as error:
            raise UserError(
                f"the answer of service {namespace}/{service} ended prematurely",
                hint=f"rayllm-ctl status {served_by(service)} -n {namespace}",
            ) from error


def ready_pods(cluster: Cluster, namespace: str, service: str) -> list[tuple[str, int]]:
    """The ready pods behind the Service, and the port of each. Raises UserError if there are none."""
    servers = []
    for endpoint_slice in cluster.list("EndpointSlice", namespace, label_selector=f"{SERVICE_NAME}={service}"):
        ports = [port["port"] for port in endpoint_slice.get("ports") or () if port.get("name") == SERVE]
        for endpoint in endpoint_slice.get("endpoints") or ():
            target = endpoint.get("targetRef") or {}
            ready = (endpoint.get("conditions") or {}).get("ready")
            if ports and ready and target.get("kind") == "Pod":
                servers.append((str(target["name"]), int(ports[0])))
    if not servers:
        raise UserError(
            f"service {namespace}/{service} has no ready pod",
            hint=f"rayllm-ctl status {served_by(service)} -n {namespace}",
        )
    return servers

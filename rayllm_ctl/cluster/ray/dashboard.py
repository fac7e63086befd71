"""Ray's dashboard of one RayCluster, through the API server's service proxy."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.api_server import Headers
from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.service_proxy import proxy_path
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

TIMEOUT = 4.0
"""Seconds for the dashboard to answer: a slower head has a problem, which must not block an observation."""


@dataclass(frozen=True)
class Dashboard:
    """`service`: the Service of the head. headers: the token, if Ray requires one."""

    cluster: Cluster
    namespace: str
    service: str
    headers: Headers = ()

    def json(self, path: str, *, doing: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """GET `path` and return its JSON. Raises UserError."""
        return self.cluster.request_json(
            "GET", self._at(path), query=query, doing=doing, timeout=TIMEOUT, headers=self.headers
        )

    def text(
        self, path: str, *, doing: str, query: Sequence[tuple[str, str]] = (), timeout: float | None = None
    ) -> str:
        """GET `path` and return it as text. timeout: in seconds; None: TIMEOUT. Raises UserError."""
        seconds = TIMEOUT if timeout is None else timeout
        return self.cluster.request_text(
            self._at(path), query=query, doing=doing, timeout=seconds, headers=self.headers
        )

    @contextmanager
    def open(self, method: str, path: str, **request: Any) -> Iterator[BaseHTTPResponse]:
        """A response of any status; `request` as in Cluster.open. Raises UserError."""
        with self.cluster.open(method, self._at(path), headers=self.headers, **request) as response:
            yield response

    @property
    def root(self) -> str:
        """The path of the dashboard on the API server."""
        return self._at("")

    def _at(self, path: str) -> str:
        return proxy_path(self.namespace, self.service, kuberay.DASHBOARD_PORT, path)


def dashboard_of(cluster: Cluster, ray_cluster: Mapping[str, Any]) -> Dashboard:
    """The dashboard of `ray_cluster`, with its token if it has one. Raises UserError if that cannot be read."""
    metadata = ray_cluster["metadata"]
    namespace = metadata["namespace"]
    head = (ray_cluster.get("status") or {}).get("head") or {}
    service = str(head.get("serviceName") or kuberay.head_service(metadata["name"]))
    secret = kuberay.token_secret(ray_cluster)
    return Dashboard(cluster, namespace, service, _token(cluster, secret, namespace) if secret else ())


def _token(cluster: Cluster, secret: str, namespace: str) -> Headers:
    data = cluster.get("Secret", secret, namespace).get("data") or {}
    try:
        token = base64.b64decode(data[kuberay.TOKEN_KEY], validate=True).decode()
    except (KeyError, ValueError, binascii.Error):
        raise UserError(
            f"Secret {namespace}/{secret} has no readable {kuberay.TOKEN_KEY}, which Ray's dashboard requires"
        ) from None
    return ((kuberay.TOKEN_HEADER, f"Bearer {token}"),)

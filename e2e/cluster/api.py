"""A small client of the API server for the few calls that bringing a cluster up takes."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from e2e.cluster import interrupt
from e2e.cluster.errors import RigError
from e2e.cluster.layout import HOST_ADDRESS

Object = Mapping[str, Any]

_PORT: Final = 6443
_FIELD_MANAGER: Final = "rayllm-e2e"
_ATTEMPTS: Final = 50
_PAUSE_SECONDS: Final = 0.2
_PASSING: Final = (http.client.NOT_FOUND, http.client.FORBIDDEN)


class Api:
    """Calls as the cluster's administrator, each on a connection of its own so that threads may share one Api."""

    def __init__(self, pki: Path) -> None:
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def get(self, path: str) -> Any:
        """The object at `path`, or None where there is none yet; OSError if the server does not answer."""
        status, body = self._request("GET", path)
        if status == http.client.NOT_FOUND:
            return None
        return json.loads(_checked("GET", path, status, body))

    def ready(self) -> bool:
        """Whether the API server answers and calls itself ready."""
        try:
            return self._request("GET", "/readyz")[0] == http.client.OK
        except OSError:
            return False

    def create(self, path: str, text: str) -> None:
        """Create an object from its JSON in the collection at `path`."""
        self._send("POST", path, text, "application/json")

    def apply(self, manifest: Object) -> None:
        """Server-side apply of one manifest."""
        path = f"{resource_path(manifest)}?fieldManager={_FIELD_MANAGER}&force=true"
        self._send("PATCH", path, json.dumps(manifest), "application/apply-patch+yaml")

    def merge(self, path: str, patch: Object) -> None:
        """JSON merge patch of the object at `path`."""
        self._send("PATCH", path, json.dumps(patch), "application/merge-patch+json")

    def _send(self, verb: str, path: str, text: str, kind: str) -> None:
        # Right after the start a type may not be served yet, and a namespace may still be without its defaults.
        for attempt in range(_ATTEMPTS):
            interrupt.check()
            try:
                status, body = self._request(verb, path, text, {"Content-Type": kind})
            except OSError as error:
                raise RigError(f"the API server does not answer {verb} {path}: {error}") from error
            passing = status in _PASSING or status >= http.client.INTERNAL_SERVER_ERROR
            if not passing or attempt == _ATTEMPTS - 1:
                break
            time.sleep(_PAUSE_SECONDS)
        _checked(verb, path, status, body)

    def _request(
        self, verb: str, path: str, body: str | None = None, headers: Object | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(HOST_ADDRESS, _PORT, timeout=30, context=self._tls)
        try:
            connection.request(verb, path, body.encode() if body else None, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def resource_path(manifest: Object) -> str:
    """The path of a manifest's object, for kinds whose plural is the kind's name and an s."""
    group = str(manifest["apiVersion"])
    metadata = manifest["metadata"]
    parts = ["", "apis" if "/" in group else "api", group]
    if namespace := metadata.get("namespace"):
        parts += ["namespaces", namespace]
    return "/".join([*parts, f"{manifest['kind'].lower()}s", metadata["name"]])


def _checked(verb: str, path: str, status: int, body: bytes) -> bytes:
    if status >= http.client.BAD_REQUEST:
        raise RigError(f"the API server answered {verb} {path} with {status}: {body.decode(errors='replace')[:500]}")
    return body

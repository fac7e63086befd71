"""One API server, spoken to as one user: objects as plain dicts over HTTP.

The official client reads the configuration and makes the connections (transport.py). Its typed models are not used, as
importing them takes half a second; nor is its dynamic client, which starts with discovery requests and watches without
a time limit.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from rayllm_ctl import __version__
from rayllm_ctl.cluster.api.credentials import ended
from rayllm_ctl.cluster.api.errors import GoneError, UnauthorizedError, UnreachableError, api_error, unreachable
from rayllm_ctl.cluster.api.go_json import go_json
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.api_kinds import Kind, kind, label

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from rayllm_ctl.cluster.api.transport import Transport

Query = Sequence[tuple[str, str]]
Headers = Sequence[tuple[str, str]]
"""Query parameters in order."""

CONNECT_TIMEOUT = 10.0
"""Seconds to establish a connection, including TLS: enough for any distance."""

PAGE = 500
"""Objects per list request, kubectl's chunk size."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What is accepted where only the metadata of objects is read
(k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go)."""

requests = logging.getLogger("rayllm_ctl.requests")
"""A line for each request, for --verbose."""

_BUSY_TRIES = 3
"""How often a request is sent that the API server's flow control rejects (429 with Retry-After)."""

_BUSY_WAIT = 5.0
"""Maximum seconds between two such tries."""


@dataclass(frozen=True)
class Listing:
    """Objects of one list and the resourceVersion to watch from."""

    items: list[dict[str, Any]]
    resource_version: str


class Cluster:
    """Reads and writes objects as plain dicts. Thread-safe. `namespace` is the context's default.

    All methods raise children of UserError: NotFoundError and the other ApiErrors of `failures` for what the API server
    answers, UnreachableError when it does not.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        context: str,
        user: str,
        namespace: str,
        request_timeout: float,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._transport = transport
        self._headers = tuple(headers)
        self.context = context
        self.user = user
        self.namespace = namespace
        self.request_timeout = request_timeout
        self.server = transport.server

    def get(self, kind_name: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""
        what = kind(kind_name)
        doing = f"get {label(what, name, namespace)}"
        return self.request_json("GET", what.path(namespace, name), doing=doing, secret=kind_name == "Secret")

    def list(
        self, kind_name: str, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects of a kind in `namespace`, or in all namespaces. Each carries its apiVersion and kind."""
        return self.listing(kind_name, namespace, label_selector=label_selector, field_selector=field_selector).items

    def listing(
        self, kind_name: str, namespace: str | None = None, *, label_selector: str = "", field_selector: str = "",
        metadata_only: bool = False,
    ) -> Listing:  # fmt: skip
        """As `list`, with the resourceVersion to watch from. metadata_only: the objects have no more than that."""
        what = kind(kind_name)
        chosen = selectors(label_selector, field_selector)
        accept = METADATA_LIST if metadata_only else "application/json"
        try:
            return self._pages(what, namespace, [*chosen, ("limit", str(PAGE))], accept)
        except GoneError:
            # The page token went stale between two pages: one request for everything cannot.
            return self._pages(what, namespace, chosen, accept)

    def _pages(self, what: Kind, namespace: str | None, query: Query, accept: str) -> Listing:
        doing = f"list {label(what, None, namespace)}"
        items: list[dict[str, Any]] = []
        page: Query = query
        while True:
            answer = self.request_json("GET", what.path(namespace), query=page, doing=doing, accept=accept)
            items += [{"apiVersion": what.api_version, "kind": what.name, **item} for item in answer.get("items") or ()]
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion") or ""))
            page = [*query, ("continue", metadata["continue"])]

    def create(self, body: Mapping[str, Any], kind_name: str, namespace: str | None = None) -> dict[str, Any]:
        """Create an object and return it as stored."""
        what = kind(kind_name)
        doing = f"create {label(what, (body.get('metadata') or {}).get('name'), namespace)}"
        return self.request_json("POST", what.path(namespace), body=body, doing=doing, secret=kind_name == "Secret")

    def delete(
        self,
        kind_name: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str,
        background: bool = False,
        orphan: bool = False,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete the object with this `uid` after its dependents; `background`: before them.

        orphan: its dependents stay, without an owner.
        grace_seconds: of a pod, even one that is terminating already; None: from its spec.
        NotFoundError if it is gone already; ApiError with status 409 if another object has the name now.
        """
        what = kind(kind_name)
        policy = "Orphan" if orphan else "Background" if background else "Foreground"
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        doing = f"delete {label(what, name, namespace)}"
        self.request_json(
            "DELETE", what.path(namespace, name), body={**options, "preconditions": {"uid": uid}}, doing=doing
        )

    def patch(
        self,
        kind_name: str,
        name: str,
        namespace: str | None,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        content_type: str,
        query: Query = (),
    ) -> tuple[dict[str, Any], bool]:
        """Patch an object. Returns it as stored and whether the patch (a server-side apply) created it."""
        what = kind(kind_name)
        doing = f"{'apply' if 'apply' in content_type else 'patch'} {label(what, name, namespace)}"
        status, answer = self._exchange(
            "PATCH", what.path(namespace, name), query=query, body=go_json(body).encode(), content_type=content_type,
            doing=doing, secret=kind_name == "Secret",
        )  # fmt: skip
        return self._decoded(answer, doing), status == 201

    def patch_status(
        self, kind_name: str, name: str, namespace: str | None, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        """Apply the status of an object, whose metadata in `body` may name the uid that it must have."""
        what = kind(kind_name)
        doing = f"write the status of {label(what, name, namespace)}"
        query = [("fieldManager", field_manager), ("force", "true")]
        _, answer = self._exchange(
            "PATCH", what.path(namespace, name, "status"), query=query, body=go_json(body).encode(),
            content_type="application/apply-patch+yaml", doing=doing,
        )  # fmt: skip
        return self._decoded(answer, doing)

    def headers(self) -> Headers:
        """The headers of every request: the user's credentials, and whom the user acts as."""
        authorization = self._transport.authorization()
        return (*self._headers, *((("Authorization", authorization),) if authorization else ()))

    def connection(self) -> Any:
        """A connection of its own to the API server; see Transport.connection."""
        return self._transport.connection()

    def server_version(self) -> str:
        """The API server's version, such as v1.36.2."""
        return str(self.request_json("GET", "/version", doing="read the version").get("gitVersion", ""))

    def request_json(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        secret: bool = False,
        headers: Headers = (),
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Any request whose answer is a JSON object. doing: what is attempted, for messages. timeout: seconds.

        headers: for a server behind the API server's proxy.
        """
        data = None if body is None else go_json(body).encode()
        _, answer = self._exchange(
            method, path, query=query, body=data, doing=doing, timeout=timeout, secret=secret, headers=headers,
            accept=accept,
        )  # fmt: skip
        return self._decoded(answer, doing)

    def request_text(
        self, path: str, *, doing: str, query: Query = (), timeout: float | None = None, headers: Headers = ()
    ) -> str:
        """GET of a text that is not JSON, such as a log."""
        _, answer = self._exchange(
            "GET", path, query=query, doing=doing, timeout=timeout, accept="*/*", headers=headers
        )
        return answer.decode("utf-8", "replace")

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        read_timeout: float | None = None,
        gzip: bool = False,
        headers: Headers = (),
    ) -> Iterator[BaseHTTPResponse]:
        """A response of any status, whose body the caller reads. read_timeout: seconds between two pieces of it.

        gzip: let the server compress, as it does with lists above 128 KiB; not for streams.

        UnreachableError also when the connection breaks while the body is read inside the `with` block.
        """
        import urllib3

        sent = urllib3.HTTPHeaderDict((*self.headers(), *headers))
        sent.update({"Accept": accept, "User-Agent": f"rayllm-ctl/{__version__}"})
        if gzip:
            sent["Accept-Encoding"] = "gzip"
        if body is not None:
            sent["Content-Type"] = content_type
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        start = time.monotonic()
        try:
            response = self._transport.pool.request(
                method, url, body=body, headers=sent, preload_content=False, retries=False, redirect=False,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout),
            )  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(error, self.server, self.context) from error
        requests.debug("%s %s %d in %.0f ms", method, url, response.status, 1000 * (time.monotonic() - start))
        try:
            yield response
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(error, self.server, self.context) from error
        finally:
            # A body that was read to its end has returned its connection; any other connection cannot be reused.
            response.close()

    def failure(self, status: int, body: bytes, doing: str, *, secret: bool = False) -> UserError:
        """The error for a failed response of the API server, with details on the credentials."""
        error = api_error(status, body, doing=doing, secret=secret)
        if not isinstance(error, UnauthorizedError):
            return error
        why = ended(self._transport.certificate, self._transport.authorization())
        who = f"user {self.user!r}" + (f" (context {self.context!r})" if self.context else "")
        return UnauthorizedError(
            f"the API server {self.server} rejected the credentials of {who}" + (f": {why}" if why else ""),
            status=401, reason=error.reason,
            hint=("log in again, or renew the kubeconfig", f"kubectl --context {self.context} auth whoami")
            if self.context
            else "the service account's token is no longer valid: restart the pod",
        )  # fmt: skip

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
        secret: bool = False,
        headers: Headers = (),
    ) -> tuple[int, bytes]:
        limit = timeout if timeout is not None else self.request_timeout or None
        tries = 0
        while True:
            tries += 1
            try:
                with self.open(
                    method, path, query=query, body=body, content_type=content_type, accept=accept, read_timeout=limit,
                    gzip=True, headers=headers,
                ) as response:  # fmt: skip
                    answer, status = response.read(), response.status
                    wait = response.headers.get("Retry-After", "")
            except UnreachableError as error:
                # The server may close an idle connection just as it is reused; reading twice does no harm.
                if method == "GET" and tries == 1 and _stale(error):
                    continue
                raise
            if 200 <= status < 300:
                return status, answer
            if status != 429 or not wait.isdigit() or tries == _BUSY_TRIES:
                raise self.failure(status, answer, doing, secret=secret)
            time.sleep(min(float(wait), _BUSY_WAIT))

    def _decoded(self, answer: bytes, doing: str) -> dict[str, Any]:
        try:
            decoded = json.loads(answer)
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise ClusterError(
                f"the API server {self.server} did not answer with JSON ({doing})",
                hint=f"is this the address of an API server? kubectl config view --minify --context {self.context}",
            )
        return decoded


def selectors(labels: str, fields: str) -> list[tuple[str, str]]:
    """The query parameters of a label and a field selector; empty ones are left out."""
    return [(key, value) for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value]


def lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body as they arrive, without empty ones; an incomplete last line is dropped."""
    buffer = b""
    while piece := response.read1(65536):
        *whole, buffer = (buffer + piece).split(b"\n")
        yield from (line for line in whole if line.strip())


def _stale(error: UnreachableError) -> bool:
    from urllib3.exceptions import ProtocolError

    return isinstance(error.__cause__, (ProtocolError, ConnectionError))

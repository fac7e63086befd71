"""One API server, spoken to as one user: objects as plain dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.api_server import ApiServer, Query
from rayllm_ctl.cluster.api.errors import GoneError
from rayllm_ctl.cluster.api.go_json import go_json
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.api_kinds import Kind, kind, label

PAGE = 500
"""Objects per list request, kubectl's chunk size."""

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What is accepted where only the metadata of objects is read
(k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go)."""


@dataclass(frozen=True)
class Listing:
    """Objects of one list and the resourceVersion to watch from."""

    items: list[dict[str, Any]]
    resource_version: str


class Cluster(ApiServer):
    """Reads and writes objects as plain dicts. Thread-safe. `namespace` is the context's default.

    All methods raise children of UserError: NotFoundError and the other ApiErrors of `failures` for what the API server
    answers, UnreachableError when it does not.
    """

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

    def server_version(self) -> str:
        """The API server's version, such as v1.36.2."""
        return str(self.request_json("GET", "/version", doing="read the version").get("gitVersion", ""))


def selectors(labels: str, fields: str) -> list[tuple[str, str]]:
    """The query parameters of a label and a field selector; empty ones are left out."""
    return [(key, value) for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value]

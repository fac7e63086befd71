"""Best-effort reads: objects that cannot be read are skipped and noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import NotFoundError, short_reason
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.api_kinds import kind

Objects = list[dict[str, Any]]


class Reader:
    """Thread-safe. notes: why objects could not be read. unread: the kinds of these objects."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notes: set[str] = set()
        self.unread: set[str] = set()

    def get(self, kind_name: str, name: str, namespace: str | None = None) -> Objects:
        """The object in a list; empty if there is none."""
        return self.attempt(
            lambda: [self.cluster.get(kind_name, name, namespace)], f"{kind_name} {name}", kind_name
        )  # fmt: skip

    def list(self, kind_name: str, namespace: str | None = None, labels: str = "", fields: str = "") -> Objects:
        """The objects of a kind in `namespace`, or in all; empty if the cluster does not serve the kind."""
        what = kind(kind_name)
        where = f" of {f'namespace {namespace}' if namespace else 'all namespaces'}" if what.namespaced else ""
        return self.attempt(
            lambda: self.cluster.list(kind_name, namespace, label_selector=labels, field_selector=fields),
            f"{what.plural}{where}",
            kind_name,
        )

    def attempt(self, read: Callable[[], Objects], what: str, kind_name: str = "") -> Objects:
        """The result of `read`, or a note on its failure. what: the name for the note."""
        try:
            return read()
        except NotFoundError:
            return []
        except UserError as error:
            self.notes.add(f"{what} could not be read: {short_reason(error)}")
            self.unread.add(kind_name)
            return []

"""What the user may do, asked of the API server before anything is attempted."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rayllm_ctl.cluster.client import Cluster
from rayllm_ctl.cluster.kinds import kind


@dataclass(frozen=True)
class Right:
    """A verb on a kind, or on one of its subresources ("proxy" of Service)."""

    verb: str
    kind: str
    subresource: str = ""

    @property
    def text(self) -> str:
        """As in `create rayservices.ray.io`."""
        return f"{self.verb} {kind(self.kind).resource}{f'/{self.subresource}' if self.subresource else ''}"

    def check(self, namespace: str) -> str:
        """The kubectl command that asks the same."""
        what = kind(self.kind)
        subresource = f" --subresource={self.subresource}" if self.subresource else ""
        return f"kubectl auth can-i {self.verb} {what.resource}{subresource} -n {namespace}"


def missing(cluster: Cluster, namespace: str, rights: Sequence[Right]) -> list[Right]:
    """Those of `rights` that the user lacks in `namespace`, in the same order."""
    with ThreadPoolExecutor(len(rights) or 1, thread_name_prefix="may") as pool:
        allowed = pool.map(lambda right: _allowed(cluster, namespace, right), rights)
        return [right for right, yes in zip(rights, allowed, strict=True) if not yes]


def _allowed(cluster: Cluster, namespace: str, right: Right) -> bool:
    what = kind(right.kind)
    attributes = {
        "verb": right.verb, "group": what.group, "resource": what.plural, "subresource": right.subresource,
        "namespace": namespace if what.namespaced else "",
    }  # fmt: skip
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }  # fmt: skip
    answer = cluster.create(body, "SelfSubjectAccessReview")
    return bool((answer.get("status") or {}).get("allowed"))

"""What the user may do, asked of the API server before anything is attempted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.workload import Right, Rights


def missing(cluster: Cluster, namespace: str, rights: Sequence[Right]) -> list[Right]:
    """Those of `rights` that the user lacks in `namespace`, in the same order.

    One SelfSubjectAccessReview per right, in parallel: a SelfSubjectRulesReview would be one request, but is incomplete
    where a webhook authorizes (GKE, EKS).
    """
    with Tasks() as tasks:
        allowed = tasks.map(lambda right: _allowed(cluster, namespace, right), rights)
        return [right for right, yes in zip(rights, allowed, strict=True) if not yes]


def format_right(right: Right) -> str:
    """As in `create rayservices.ray.io`."""
    what = f"{right.verb} {kind(right.kind).resource}{f'/{right.subresource}' if right.subresource else ''}"
    if right.everywhere:
        return f"{what} in all namespaces"
    return f"{what} in namespace {right.namespace}" if right.namespace else what


def user_name(cluster: Cluster) -> str:
    """Who the API server takes the user for; before Kubernetes 1.28 the name in the kubeconfig."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = cluster.create(body, "SelfSubjectReview")
    except UserError:
        return cluster.user
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or cluster.user)


def not_permitted(cluster: Cluster, namespace: str, lacking: Sequence[Right]) -> ClusterError:
    """The error for rights without which a command cannot work."""
    first = lacking[0]
    what = kind(first.kind)
    subresource = f" --subresource={first.subresource}" if first.subresource else ""
    scope = "-A" if first.everywhere or not what.namespaced else f"-n {namespace}"
    return ClusterError(
        f"user {user_name(cluster)!r} is not permitted to {', '.join(format_right(right) for right in lacking)} "
        f"in namespace {namespace}",
        hint=(
            f"kubectl auth can-i {first.verb} {what.resource}{subresource} {scope}",
            "ask an administrator of the cluster for a Role with these rights",
        ),
    )


@contextmanager
def explained(cluster: Cluster, namespace: str, rights: Rights) -> Iterator[None]:
    """Name all rights that a command lacks, where the API server has rejected a request for want of the first."""
    try:
        yield
    except ForbiddenError as error:
        lacking = missing(cluster, namespace, rights.needed)
        if not lacking:
            raise
        raise not_permitted(cluster, namespace, lacking) from error


def _allowed(cluster: Cluster, namespace: str, right: Right) -> bool:
    what = kind(right.kind)
    attributes = {
        "verb": right.verb, "group": what.group, "resource": what.plural, "subresource": right.subresource,
        "namespace": (right.namespace or namespace) if what.namespaced and not right.everywhere else "",
    }  # fmt: skip
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }  # fmt: skip
    answer = cluster.create(body, "SelfSubjectAccessReview")
    return bool((answer.get("status") or {}).get("allowed"))

"""The user's permissions, checked before anything is attempted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.errors import ClusterError, UserError
from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.text.problems import quoted
from rayllm_ctl.model.workload import Right, Rights


class Permissions:
    """The user's permissions in one namespace, each right checked once.

    A SelfSubjectRulesReview covers most rights in one request. It is used only for the rights that it grants, and only
    if it is complete: an authorization webhook (GKE, EKS) does not list rules, and may deny what RBAC grants. All other
    rights are checked one by one, in parallel, with SelfSubjectAccessReviews; among them those in other namespaces and
    in all of them, as the rules do not distinguish a RoleBinding from a ClusterRoleBinding.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._known: dict[Right, bool] = {}
        self._rules: Sequence[Mapping[str, Any]] | None = None

    def missing(self, rights: Sequence[Right]) -> list[Right]:
        """The subset of `rights` that the user lacks, in the same order."""
        self._read_rules([right for right in rights if self._is_local(right) and right not in self._known])
        self._known |= {right: True for right in rights if right not in self._known and self._is_granted(right)}
        asked = [right for right in dict.fromkeys(rights) if right not in self._known]
        with Tasks() as tasks:
            answers = tasks.map(lambda right: _allowed(self._cluster, self._namespace, right), asked)
        self._known |= dict(zip(asked, answers, strict=True))
        return [right for right in rights if not self._known[right]]

    def learn(self, right: Right, allowed: bool) -> None:
        """Record a right shown by a request, which then need not be checked."""
        self._known[right] = allowed

    def _read_rules(self, unknown: Sequence[Right]) -> None:
        """Read the rules of the namespace once, if they may save more than one request."""
        if self._rules is None and len(unknown) > 1:
            self._rules = _rules(self._cluster, self._namespace)

    def _is_local(self, right: Right) -> bool:
        """Whether the rules of the namespace may cover this right."""
        return kind(right.kind).namespaced and not right.everywhere and right.namespace in ("", self._namespace)

    def _is_granted(self, right: Right) -> bool:
        return self._is_local(right) and any(_grants(rule, right) for rule in self._rules or ())


def missing(cluster: Cluster, namespace: str, rights: Sequence[Right]) -> list[Right]:
    """The subset of `rights` that the user lacks in `namespace` now, in the same order."""
    return Permissions(cluster, namespace).missing(rights)


def format_right(right: Right) -> str:
    """As in `create rayservices.ray.io`."""
    what = f"{right.verb} {kind(right.kind).resource}{f'/{right.subresource}' if right.subresource else ''}"
    if right.everywhere:
        return f"{what} in all namespaces"
    return f"{what} in namespace {right.namespace}" if right.namespace else what


def user_name(cluster: Cluster) -> str:
    """The user's name for the API server; before Kubernetes 1.28 the name in the kubeconfig."""
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
        f"user {quoted(user_name(cluster))} is not permitted to {', '.join(format_right(right) for right in lacking)} "
        f"in namespace {namespace}",
        hint=(
            f"kubectl auth can-i {first.verb} {what.resource}{subresource} {scope}",
            "ask an administrator of the cluster for a Role with these rights",
        ),
    )


@contextmanager
def explained(cluster: Cluster, namespace: str, rights: Rights) -> Iterator[None]:
    """If a request was denied, raise an error that names all rights that the command lacks."""
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


def _rules(cluster: Cluster, namespace: str) -> Sequence[Mapping[str, Any]]:
    """The rules that apply to the user in `namespace`; empty unless they are complete."""
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
    }  # fmt: skip
    try:
        status = cluster.create(body, "SelfSubjectRulesReview").get("status") or {}
    except ApiError:
        return ()
    if status.get("incomplete") is not False or status.get("evaluationError"):
        return ()
    return status.get("resourceRules") or ()


def _grants(rule: Mapping[str, Any], right: Right) -> bool:
    """Whether a rule grants a right on all objects of its kind, as RBAC evaluates it
    (pkg/apis/rbac/v1/evaluation_helpers.go of Kubernetes).
    """
    what = kind(right.kind)
    resources = {"*", f"{what.plural}/{right.subresource}" if right.subresource else what.plural}
    if right.subresource:
        resources.add(f"*/{right.subresource}")
    return (
        not rule.get("resourceNames")
        and not {"*", right.verb}.isdisjoint(rule.get("verbs") or ())
        and not {"*", what.group}.isdisjoint(rule.get("apiGroups") or ())
        and not resources.isdisjoint(rule.get("resources") or ())
    )

"""Roles of a service account, and those that Ray's autoscaler needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Permission = tuple[str, str, str]
"""API group, resource and verb; each may be `*`."""

AUTOSCALER: frozenset[Permission] = frozenset(
    {
        *(("", "pods", verb) for verb in ("get", "list", "watch", "patch")),
        ("", "pods/resize", "patch"),
        *(("ray.io", "rayclusters", verb) for verb in ("get", "patch")),
    }
)
"""What the Role that KubeRay makes for the head's service account grants, where Ray's autoscaler runs (KubeRay 1.4 to
1.7, ray-operator/controllers/ray/common/rbac.go)."""


def binds(binding: Mapping[str, Any], account: str, namespace: str) -> bool:
    """Whether a RoleBinding or ClusterRoleBinding is for this service account, by its name or one of its groups."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    home = (binding.get("metadata") or {}).get("namespace")
    user = f"system:serviceaccount:{namespace}:{account}"
    for subject in binding.get("subjects") or ():
        match subject.get("kind"), subject.get("name"):
            case "ServiceAccount", name if (name, subject.get("namespace") or home) == (account, namespace):
                return True
            case "Group", name if name in groups:
                return True
            case "User", name if name == user:
                return True
    return False


def is_default(binding: Mapping[str, Any]) -> bool:
    """Whether Kubernetes created it for all accounts of a cluster."""
    labels = (binding.get("metadata") or {}).get("labels") or {}
    return labels.get("kubernetes.io/bootstrapping") == "rbac-defaults"


def permissions(role: Mapping[str, Any]) -> Iterator[Permission]:
    """The resource permissions of a Role or ClusterRole."""
    for rule in role.get("rules") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    yield group, resource, verb


def format_permissions(granted: Iterable[Permission]) -> str:
    """As in `get, patch rayclusters.ray.io; list pods`."""
    verbs: dict[str, set[str]] = {}
    for group, resource, verb in granted:
        verbs.setdefault(_resource(group, resource), set()).add(verb)
    return "; ".join(
        f"{'all verbs on' if '*' in found else ', '.join(sorted(found))} {what}"
        for what, found in sorted(verbs.items())
    )


def _resource(group: str, resource: str) -> str:
    """As `kubectl` names it: pods/resize, rayclusters.ray.io."""
    if resource == "*":
        return "all resources" if group == "*" else f"all resources of {group or 'the core API'}"
    plural, slash, subresource = resource.partition("/")
    return f"{plural}{f'.{group}' if group else ''}{slash}{subresource}"

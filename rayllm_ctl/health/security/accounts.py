"""Which containers get a token for the Kubernetes API, and what its service account may do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rayllm_ctl.health.security.service import AUTOSCALER, CheckedService, Member
from rayllm_ctl.model.kube.rbac import AUTOSCALER as NEEDED
from rayllm_ctl.model.kube.rbac import Permission, binds, format_permissions, permissions
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.text.hint import Hint

_CATEGORY = "service account"
_CLUSTER_AUDIENCE = "https://kubernetes.default.svc"


def account_checks(service: CheckedService) -> Iterator[Check]:
    """Where tokens are mounted, and what may be done with them."""
    accounts: dict[str, None] = {}
    for member in service.members:
        mounted = _containers_with_token(member)
        account = fields.text(member.spec, "serviceAccountName") or "default"
        if mounted:
            accounts[account] = None
        yield _token_check(service, member, account, mounted)
    for account in accounts:
        yield _rights_check(service, account)


def _token_check(service: CheckedService, member: Member, account: str, mounted: list[str]) -> Check:
    name = f"token in {member.who}"
    if not mounted:
        return Check(_CATEGORY, name, True, "none")
    told = f"that of {account} in {', '.join(mounted)}"
    if mounted == [AUTOSCALER]:
        return Check(_CATEGORY, name, True, f"{told} alone, which adds and removes workers with it")
    if fields.flag(member.cluster, "authOptions", "enableK8sTokenAuth"):
        return Check(_CATEGORY, name, None, f"{told}: authOptions.enableK8sTokenAuth requires it")
    part = "headGroupSpec" if member.is_head else "workerGroupSpecs[]"
    hint = f"set {service.cluster_field}.{part}.template.spec.automountServiceAccountToken: false"
    if member.is_head and fields.flag(member.cluster, "enableInTreeAutoscaling"):
        hint += ", and mount a projected token with autoscalerOptions.volumeMounts (docs/operations/security.md)"
    return Check(_CATEGORY, name, False, f"{told}: code that runs there can use it", (Hint(remark=hint),))


def _containers_with_token(member: Member) -> list[str]:
    """Containers that can read a token which the API server accepts.

    A pod shows where Kubernetes mounted one; a template says only whether it will.
    """
    spec = member.spec
    volumes = {fields.text(one, "name") for one in fields.items(spec, "volumes") if _has_token(one)}
    automatic = not member.is_pod and fields.at(spec, "automountServiceAccountToken") is not False
    return [
        fields.text(container, "name")
        for kind in ("initContainers", "containers")
        for container in fields.items(spec, kind)
        if automatic or volumes & {fields.text(one, "name") for one in fields.items(container, "volumeMounts")}
    ]


def _has_token(volume: Object) -> bool:
    """Whether a volume projects a token for the API server, and not one for another audience (a cloud, Vault)."""
    tokens = (fields.at(source, "serviceAccountToken") for source in fields.items(volume, "projected", "sources"))
    audiences = [fields.text(token, "audience") for token in tokens if token is not None]
    return any(not audience or audience.startswith(_CLUSTER_AUDIENCE) for audience in audiences)


def _rights_check(service: CheckedService, account: str) -> Check:
    name = f"rights of {account}"
    unread = [kind for kind in ("RoleBinding", "ClusterRoleBinding", "Role", "ClusterRole") if service.unread(kind)]
    inside, wide, roles = _granted(service, account)
    surplus = [*wide, *sorted(inside - NEEDED)]
    if surplus:
        everywhere = f"in all namespaces: {format_permissions(wide)}" if wide else ""
        here = f"in {service.namespace}: {format_permissions(inside - NEEDED)}" if inside - NEEDED else ""
        told = "; ".join(part for part in (everywhere, here) if part)
        hint = Hint(remark=f"remove what is not needed from {', '.join(roles)}")
        return Check(_CATEGORY, name, False, f"more than Ray's autoscaler needs: {told}", (hint,))
    if unread:
        return Check(_CATEGORY, name, None, f"unknown: {', '.join(unread)} objects could not be read")
    if not inside:
        return Check(_CATEGORY, name, True, "none by RBAC")
    return Check(_CATEGORY, name, True, f"those of Ray's autoscaler: {format_permissions(inside)}")


def _granted(service: CheckedService, account: str) -> tuple[frozenset[Permission], frozenset[Permission], list[str]]:
    """What an account may do in the namespace and in all, and the roles that say so."""
    inside: set[Permission] = set()
    wide: set[Permission] = set()
    named: dict[str, None] = {}
    for binding in service.of_kind("RoleBinding", "ClusterRoleBinding"):
        if not binds(binding, account, service.namespace):
            continue
        kind, name = fields.text(binding, "roleRef", "kind"), fields.text(binding, "roleRef", "name")
        found = set(_of_role(service.of_kind(kind), name))
        if fields.kind(binding) == "ClusterRoleBinding":
            wide |= found
        else:
            inside |= found
        if found - NEEDED or fields.kind(binding) == "ClusterRoleBinding":
            named[f"{kind} {name} ({fields.kind(binding)} {fields.name(binding)})"] = None
    return frozenset(inside), frozenset(wide), list(named)


def _of_role(roles: Iterable[Object], name: str) -> Iterator[Permission]:
    for role in roles:
        if fields.name(role) == name:
            yield from permissions(role)

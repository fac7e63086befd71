"""The rights that each command needs, and Roles that grant them. Does not contact a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.preflight.storage import STORAGE_RIGHTS
from rayllm_ctl.cluster.snapshot.model_jobs import DOWNLOAD_RIGHTS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE, WORKLOADS
from rayllm_ctl.kinds.common import DOWNLOADS, OPERATOR
from rayllm_ctl.kinds.llmservice import ADOPT, CHANGE_DECLARED, DELETE_DECLARED, RELEASE
from rayllm_ctl.kinds.loadtest import OFFLINE_RIGHTS, forward_rights, job_rights
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.kube.api_kinds import APPLIED, kind
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.workload import Activity, Right, Rights
from rayllm_ctl.workflows.access import api_keys as keys
from rayllm_ctl.workflows.access import serve_config as serveconfig
from rayllm_ctl.workflows.batch.submit import RAY_JOB, submit_rights
from rayllm_ctl.workflows.setup.controller_rights import (
    BESIDE,
    CLAIM_RIGHTS,
    DOWNLOAD_JOB_RIGHTS,
    LEASE_RIGHTS,
    controller_rights,
)


def _both(*activities: Activity) -> Rights:
    """For services in either mode."""
    total = Rights()
    for workload in (RAY_SERVICE, RAY_CLUSTER):
        total |= workload.rights_for(*(activity for activity in activities if activity in workload.rights))
    return total


def _on(kinds: Iterable[str], *verbs: str) -> Rights:
    return Rights(tuple(Right(verb, name) for name in kinds for verb in verbs))


_APPLIED = Rights(display=tuple(Right("list", name) for name in APPLIED))
"""Rights to find the objects applied for a service: a user's template may have added any kind."""

_STORAGE = Rights(display=(*CLAIM_RIGHTS, *DOWNLOAD_JOB_RIGHTS, *STORAGE_RIGHTS))
"""For services and batch jobs that download their model."""

_COMPARED = Rights(display=(*CLAIM_RIGHTS, *(Right(verb, "Job") for verb in ("get", "create", "patch"))))
"""The same for a dry run."""

_KEPT = Rights(display=(Right("list", "PersistentVolumeClaim"), Right("delete", "Job")))
"""Claims stay when a service is deleted; `delete` says which."""

_REMOVAL = _both("delete") | _on(BESIDE, "list", "delete") | _APPLIED | _KEPT
_DEPLOY = (
    _both("apply", "bounds", "follow", "record")
    | DOWNLOADS
    | _on(BESIDE, "get", "create", "patch", "list", "delete")
    | _APPLIED
    | _STORAGE
    | Rights(
        display=(
            Right("get", "Secret"), Right("get", "IngressClass"), Right("get", "Gateway", everywhere=True),
            # For --accept-outage, if a second RayCluster fits only after the first is deleted.
            Right("delete", "RayCluster"),
        )
    )
)  # fmt: skip
_CHANGE = Rights(display=CHANGE_DECLARED.needed)
"""Of services that an LLMService declares."""

_CHECK = Rights(
    display=(
        *OPERATOR, Right("get", "Namespace"), Right("list", "ResourceQuota"), Right("list", "Node"),
        *(Right("get", kind) for kind in WORKLOADS), Right("get", RAY_JOB),
    )
)  # fmt: skip
_LOAD = _both("chat", "endpoint") | job_rights(RAY_SERVICE.name) | forward_rights(RAY_CLUSTER.name)

COMMANDS: Mapping[str, Rights] = {
    "deploy": _DEPLOY | _CHANGE,
    "apply": _DEPLOY | _CHANGE,
    "diff": _both("apply") | _on(BESIDE, "get", "create", "patch", "list") | _APPLIED | _COMPARED,
    "fetch": _on(("ConfigMap", "Job"), "get", "create", "patch")
    | DOWNLOAD_RIGHTS
    | Rights(display=(*CLAIM_RIGHTS, *STORAGE_RIGHTS, Right("get", "Secret"), Right("delete", "Job"))),
    "batch submit": submit_rights((RAY_JOB, "ConfigMap"), pool=True)
    | JOB_RIGHTS["follow"]
    | _STORAGE
    | Rights(display=(Right("get", "Secret"),)),
    "batch list": JOB_RIGHTS["list"],
    "batch status": JOB_RIGHTS["status"],
    "batch watch": JOB_RIGHTS["follow"],
    "batch logs": JOB_RIGHTS["logs"],
    "batch head": JOB_RIGHTS["output"],
    "batch download": JOB_RIGHTS["output"],
    "batch cancel": JOB_RIGHTS["cancel"] | _APPLIED,
    "batch resume": JOB_RIGHTS["resume"] | JOB_RIGHTS["follow"],
    "bench": _LOAD,
    "bench sweep": _DEPLOY | _REMOVAL | _LOAD,
    "bench offline": OFFLINE_RIGHTS,
    "check": _CHECK,
    "check --security": _both("security"),
    "status": _both("status", "list") | DOWNLOADS,
    "watch": _both("follow") | DOWNLOADS,
    "wait": _both("follow") | DOWNLOADS,
    "events": _both("events", "follow-events") | DOWNLOADS,
    "logs": _both("logs") | DOWNLOADS,
    "bundle": _both("status", "logs") | DOWNLOADS,
    "chat": _both("chat"),
    "endpoint": _both("endpoint"),
    "port-forward": _both("port-forward"),
    "keys": keys.KEY_RIGHTS,
    "serve-config": serveconfig.SERVE_CONFIG_RIGHTS,
    "dashboard": _both("dashboard"),
    "top": _both("top"),
    "scale": _DEPLOY | _CHANGE,
    "history": _both("history") | _both("status"),
    "rollback": _DEPLOY | _CHANGE,
    "restart": _both("restart", "follow", "apply"),
    "suspend": _both("suspend", "follow") | _CHANGE,
    "resume": _both("suspend", "follow") | _CHANGE,
    "delete": _REMOVAL | Rights(display=DELETE_DECLARED.needed),
    "adopt": _DEPLOY | ADOPT,
    "release": _DEPLOY | RELEASE,
    "rerender": _both("follow") | CHANGE_DECLARED,
    "version": Rights(display=OPERATOR) | _both("version"),
    "controller": controller_rights() | LEASE_RIGHTS,
}
"""The rights of each command that talks to a cluster, for all of its features."""

_LOOKING = (
    "check", "status", "watch", "wait", "events", "history", "endpoint", "serve-config", "version",
    "batch list", "batch status", "batch watch", "batch logs",
)  # fmt: skip

ROLES: Mapping[str, tuple[str, ...]] = {
    "viewer": _LOOKING,
    "ci": ("check", "deploy", "apply", "diff", "status", "watch", "wait"),
    "operator": tuple(name for name in COMMANDS if name != "controller"),
}
"""Sets of commands for common roles."""


@dataclass(frozen=True)
class Subjects:
    """Who is granted a role. service_accounts: (namespace, name)."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[tuple[str, str], ...] = ()

    def objects(self) -> list[dict[str, str]]:
        """The subjects of a RoleBinding."""
        group = "rbac.authorization.k8s.io"
        return [
            *({"kind": "User", "apiGroup": group, "name": name} for name in self.users),
            *({"kind": "Group", "apiGroup": group, "name": name} for name in self.groups),
            *({"kind": "ServiceAccount", "namespace": space, "name": name} for space, name in self.service_accounts),
        ]


def rights_of(names: Sequence[str]) -> Rights:
    """The rights of commands and roles. UsageError for any other name."""
    total = Rights()
    for name in names:
        if name not in COMMANDS and name not in ROLES:
            known = (*ROLES, *COMMANDS)
            close = nearest(name, known)
            raise UsageError(
                f'"{name}" is neither a command that talks to a cluster nor a role',
                hint=f'did you mean "{close}"?' if close else [f"rayllm-ctl rbac --for {role}" for role in ROLES],
            )
        for command in ROLES.get(name, (name,)):
            total |= COMMANDS[command]
    return total


def roles(
    rights: Rights, name: str, namespace: str | None, subjects: Subjects, *, needed_only: bool
) -> list[dict[str, Any]]:
    """A Role and, where rights reach beyond a namespace, a ClusterRole; their bindings if there are subjects.

    namespace: of the Role; None leaves it open. needed_only: without the rights that commands need only to show more.
    Raises UsageError for a ClusterRoleBinding without a namespace: its name contains it.
    """
    granted = rights.needed if needed_only else (*rights.needed, *rights.display)
    wide = [right for right in granted if is_wide(right)]
    near = [right for right in granted if not is_wide(right)]
    place = {"namespace": namespace} if namespace else {}
    roles: list[dict[str, Any]] = [_role("Role", {"name": name, **place}, near)]
    listed = subjects.objects()
    if listed:
        roles.append(_binding("RoleBinding", {"name": name, **place}, "Role", name, listed))
    if wide:
        roles.append(_role("ClusterRole", {"name": name}, wide))
    if wide and listed:
        if not namespace:
            raise UsageError(
                "the ClusterRoleBinding is named after the namespace, and no namespace was given", hint="-n NAMESPACE"
            )
        roles.append(_binding("ClusterRoleBinding", {"name": f"{name}-{namespace}"}, "ClusterRole", name, listed))
    return roles


def rules(rights: Iterable[Right]) -> list[dict[str, list[str]]]:
    """The rules of a Role that grants `rights`: one for all resources of an API group with the same verbs."""
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for right in rights:
        api_kind = kind(right.kind)
        verbs[api_kind.group, f"{api_kind.plural}/{right.subresource}" if right.subresource else api_kind.plural].add(
            right.verb
        )
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), allowed in sorted(verbs.items()):
        resources[group, tuple(sorted(allowed))].append(resource)
    return [
        {"apiGroups": [group], "resources": names, "verbs": list(allowed)}
        for (group, allowed), names in resources.items()
    ]


def is_wide(right: Right) -> bool:
    """Whether a Role of the service's namespace cannot grant it."""
    return right.everywhere or bool(right.namespace) or not kind(right.kind).namespaced


def _role(name: str, metadata: dict[str, str], rights: Sequence[Right]) -> dict[str, Any]:
    return {"apiVersion": kind(name).api_version, "kind": name, "metadata": metadata, "rules": rules(rights)}


def _binding(
    name: str, metadata: dict[str, str], role_kind: str, role: str, subjects: list[dict[str, str]]
) -> dict[str, Any]:
    return {
        "apiVersion": kind(name).api_version,
        "kind": name,
        "metadata": metadata,
        "roleRef": {"apiGroup": kind(name).group, "kind": role_kind, "name": role},
        "subjects": subjects,
    }

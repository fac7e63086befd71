"""What the containers may do on their node: their user, privileges, and the Pod Security level of the whole pod."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.security.service import CheckedService, Member
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.pod_security import violations
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.model.text.problems import Problem

_CATEGORY = "pods"
_LEVELS: tuple[PodSecurity, ...] = ("restricted", "baseline", "privileged")


def container_checks(service: CheckedService) -> Iterator[Check]:
    """A check of each container, and of what else of its pod a Pod Security level restricts."""
    for member in service.members:
        for kind in ("initContainers", "containers"):
            for container in fields.items(member.spec, kind):
                yield _container(member, container)
        yield _level(service, member)


def _container(member: Member, container: Object) -> Check:
    pod, own = fields.mapping(member.spec, "securityContext"), fields.mapping(container, "securityContext")
    capabilities = fields.mapping(own, "capabilities")
    added = fields.words(capabilities, "add")
    seccomp = fields.text(own, "seccompProfile", "type") or fields.text(pod, "seccompProfile", "type")
    user_ok, user = _user({**pod, **own})
    aspects = [
        (user_ok, user),
        (fields.at(own, "allowPrivilegeEscalation") is False, "privilege escalation"),
        ("ALL" in fields.words(capabilities, "drop"), "default capabilities"),
        (not set(added) - {"NET_BIND_SERVICE"}, f"added capabilities: {', '.join(added)}"),
        (seccomp not in ("", "Unconfined"), "no seccomp profile"),
        (not fields.flag(own, "privileged"), "privileged"),
    ]
    name = f"{member.who}/{fields.text(container, 'name')}"
    open_ = [text for closed, text in aspects if not closed]
    if open_:
        return Check(_CATEGORY, name, False, "; ".join(open_))
    return Check(_CATEGORY, name, True, f"{user}, no privilege escalation, no capabilities, seccomp {seccomp}")


def _user(context: Object) -> tuple[bool, str]:
    """Whether a container cannot run as root, and as whom it runs."""
    user = fields.at(context, "runAsUser")
    if user == 0:
        return False, "runs as root"
    if isinstance(user, int):
        return True, f"user {user}"
    if fields.flag(context, "runAsNonRoot"):
        return True, "not as root"
    return False, "runs as the user of the image, which may be root"


def _level(service: CheckedService, member: Member) -> Check:
    """The strictest Pod Security level that a pod satisfies."""
    found = next(level for level in _LEVELS if not list(violations(member.spec, level)))
    name = f"Pod Security of {member.who}"
    if found == _LEVELS[0]:
        return Check(_CATEGORY, name, True, found)
    places = dict.fromkeys(
        f"{Problem(one.path, '').where}: {one.reason}"
        for one in violations(member.spec, "restricted")
        if "securityContext" not in one.path[1:]
    )
    namespace = f"--overwrite namespace {service.namespace}"
    label = "pod-security.kubernetes.io/enforce=restricted"
    hint = Hint(f"kubectl label --dry-run=server {namespace} {label}", "lists what violates the level")
    if service.is_ours:
        hint = service.change("spec.security.podSecurity: restricted", "")
    return Check(_CATEGORY, name, False, "; ".join((found, *places)), (hint,))

"""The Pod Security Standards: why a namespace that enforces a level would reject a pod.

The rules of k8s.io/pod-security-admission v0.36.2 (policy/), for pods of Linux. What has a wrong type is left to the
schema of the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.text.problems import Path


class Violation(NamedTuple):
    """Where in the pod's spec something is that a level forbids, why, and the strictest level that permits it."""

    path: Path
    reason: str
    permitted_by: PodSecurity


_Finding = tuple[Path, str]

_CONTAINERS = ("initContainers", "containers")

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})


def violations(spec: Mapping[str, Any], level: PodSecurity) -> Iterator[Violation]:
    """Violations of `level` in the spec of a pod, or of a pod template."""
    if level != "privileged":
        yield from (Violation(path, reason, "privileged") for path, reason in _baseline(spec))
    if level == "restricted":
        yield from (Violation(path, reason, "baseline") for path, reason in _restricted(spec))


def _baseline(spec: Mapping[str, Any]) -> Iterator[_Finding]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield (name,), "pods must not share namespaces of the node"
    for index, volume in enumerate(_items(spec, "volumes")):
        if "hostPath" in volume:
            yield ("volumes", index, "hostPath"), "pods must not mount directories of the node"
    for index, sysctl in enumerate(_items(_part(spec, "securityContext"), "sysctls")):
        if sysctl.get("name") not in _SYSCTLS:
            yield ("securityContext", "sysctls", index), "this sysctl is not one of the safe ones"
    for at, context in _contexts(spec):
        yield from _unsafe(at, context)
    for at, container in _containers(spec):
        for index, port in enumerate(_items(container, "ports")):
            if port.get("hostPort"):
                yield (*at, "ports", index, "hostPort"), "containers must not use ports of the node"
        if not _words(_part(_part(container, "securityContext"), "capabilities"), "add") <= _CAPABILITIES:
            yield (*at, "securityContext", "capabilities", "add"), "only the default capabilities can be added"
        for place, handler in _handlers(container):
            if handler.get("host"):
                yield (*at, *place, "host"), "probes and lifecycle handlers must not name a host"


def _unsafe(at: Path, context: Mapping[str, Any]) -> Iterator[_Finding]:
    """What no security context, of a pod or of a container, may say."""
    if context.get("privileged"):
        yield (*at, "privileged"), "containers must not be privileged"
    if _part(context, "seccompProfile").get("type") == "Unconfined":
        yield (*at, "seccompProfile", "type"), "must be RuntimeDefault or Localhost"
    if _part(context, "appArmorProfile").get("type") == "Unconfined":
        yield (*at, "appArmorProfile", "type"), "must be RuntimeDefault or Localhost"
    if context.get("procMount", "Default") != "Default":
        yield (*at, "procMount"), "must be Default"
    if _part(context, "windowsOptions").get("hostProcess"):
        yield (*at, "windowsOptions", "hostProcess"), "must not be true"
    selinux = _part(context, "seLinuxOptions")
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield (*at, "seLinuxOptions"), "user and role must not be set, and type must be one of a container"


def _restricted(spec: Mapping[str, Any]) -> Iterator[_Finding]:
    for index, volume in enumerate(_items(spec, "volumes")):
        kinds = set(volume) - {"name"}
        if not kinds <= _VOLUMES | {"hostPath"}:
            yield ("volumes", index), f"volumes of this type ({', '.join(sorted(kinds))}) must be claimed"
    pod = _part(spec, "securityContext")
    for at, context in _contexts(spec):
        if context.get("runAsUser") == 0:
            yield (*at, "runAsUser"), "must not be 0, the user root"
        if context.get("runAsNonRoot") is False:
            yield (*at, "runAsNonRoot"), "must be true"
    for at, container in _containers(spec):
        own = _part(container, "securityContext")
        where = (*at, "securityContext")
        if "runAsNonRoot" not in {**pod, **own}:
            yield (*where, "runAsNonRoot"), "must be true, here or for the pod"
        if "type" not in (_part(own, "seccompProfile") or _part(pod, "seccompProfile")):
            yield (*where, "seccompProfile"), "must be set, here or for the pod"
        if own.get("allowPrivilegeEscalation") is not False:
            yield (*where, "allowPrivilegeEscalation"), "must be false"
        capabilities = _part(own, "capabilities")
        if "ALL" not in _words(capabilities, "drop"):
            yield (*where, "capabilities", "drop"), "must contain ALL"
        if _words(capabilities, "add") & _CAPABILITIES - {"NET_BIND_SERVICE"}:
            yield (*where, "capabilities", "add"), "only NET_BIND_SERVICE can be added"


def _contexts(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    yield ("securityContext",), _part(spec, "securityContext")
    for at, container in _containers(spec):
        yield (*at, "securityContext"), _part(container, "securityContext")


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for name in _CONTAINERS:
        for index, container in enumerate(_items(spec, name)):
            yield (name, index), container


def _handlers(container: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    lifecycle = _part(container, "lifecycle")
    callers: list[tuple[Path, Mapping[str, Any]]] = [
        ((name,), _part(container, name)) for name in ("livenessProbe", "readinessProbe", "startupProbe")
    ]
    callers += [(("lifecycle", name), _part(lifecycle, name)) for name in ("postStart", "preStop")]
    for at, caller in callers:
        for kind in ("httpGet", "tcpSocket"):
            yield (*at, kind), _part(caller, kind)


def _words(parent: Mapping[str, Any], name: str) -> set[str]:
    found = parent.get(name)
    return {item for item in found if isinstance(item, str)} if isinstance(found, (list, tuple)) else set()


def _items(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = parent.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, (list, tuple)) else []


def _part(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, Mapping) else {}

"""Which clients the NetworkPolicies of a namespace admit to a port of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from rayllm_ctl.health.security.selectors import format_selector, selects
from rayllm_ctl.health.security.service import Member
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label of each namespace: its name (set by Kubernetes)."""


class PolicyScope(IntEnum):
    """How many may be meant by a peer."""

    NAMED = 0
    NAMESPACE = 1
    EVERYONE = 2


class Peer(NamedTuple):
    """Clients that a NetworkPolicy admits."""

    text: str
    scope: PolicyScope


def policies_for(member: Member, policies: Iterable[Object]) -> list[Object]:
    """Those that restrict who may connect to a pod."""
    return [
        policy for policy in policies
        if "Ingress" in (fields.words(policy, "spec", "policyTypes") or ("Ingress",))
        and selects(fields.mapping(policy, "spec", "podSelector"), member.labels)
    ]  # fmt: skip


def admitted(member: Member, port: int, policies: Iterable[Object]) -> list[Peer]:
    """Clients that may connect to a TCP port of a pod which these policies select; each once."""
    found: dict[Peer, None] = {}
    for policy in policies:
        for rule in fields.items(policy, "spec", "ingress"):
            if _opens(rule, member, port):
                found |= dict.fromkeys(_peers(rule))
    return list(found)


def _opens(rule: Object, member: Member, port: int) -> bool:
    listed = fields.items(rule, "ports")
    return not listed or any(_is_port(one, member, port) for one in listed)


def _is_port(entry: Object, member: Member, port: int) -> bool:
    if (fields.text(entry, "protocol") or "TCP") != "TCP":
        return False
    if name := fields.text(entry, "port"):
        containers = fields.items(member.spec, "containers")
        return any(
            (one.get("name"), one.get("containerPort")) == (name, port)
            for container in containers
            for one in fields.items(container, "ports")
        )
    first = fields.integer(entry, "port")
    return first == 0 or first <= port <= fields.integer(entry, "endPort", default=first)


def _peers(rule: Object) -> Iterator[Peer]:
    listed = fields.items(rule, "from")
    if not listed:
        yield Peer("everyone", PolicyScope.EVERYONE)
    for one in listed:
        yield _of_block(fields.mapping(one, "ipBlock")) if "ipBlock" in one else _of_pods(one)


def _of_block(block: Object) -> Peer:
    cidr, excepted = fields.text(block, "cidr"), fields.words(block, "except")
    scope = PolicyScope.EVERYONE if cidr.endswith("/0") else PolicyScope.NAMED
    return Peer(cidr + (f" except {', '.join(excepted)}" if excepted else ""), scope)


def _of_pods(peer: Object) -> Peer:
    chosen = format_selector(fields.mapping(peer, "podSelector"))
    pods = f"pods with {chosen}" if chosen else "all pods"
    if "namespaceSelector" not in peer:
        scope = PolicyScope.NAMED if chosen else PolicyScope.NAMESPACE
        return Peer(pods if chosen else "all pods of the namespace", scope)
    namespaces = fields.mapping(peer, "namespaceSelector")
    where = format_selector(namespaces)
    if not where:
        # Whoever can create pods in any namespace chooses their labels.
        return Peer(f"{pods} {'in all namespaces' if chosen else 'of the cluster'}", PolicyScope.EVERYONE)
    name = fields.text(namespaces, "matchLabels", NAMESPACE_NAME)
    if where == f"{NAMESPACE_NAME}={name}":
        return Peer(f"{pods} in namespace {name}", PolicyScope.NAMED)
    return Peer(f"{pods} in namespaces with {where}", PolicyScope.NAMED)

"""Who may connect to the pods, as far as NetworkPolicies tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rayllm_ctl.health.security.authentication import requires_token
from rayllm_ctl.health.security.policies import Peer, PolicyScope, admitted, policies_for
from rayllm_ctl.health.security.service import CheckedService, Member
from rayllm_ctl.model.kube.kuberay import SERVE, SERVE_PORT
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.text.hint import Hint

_CATEGORY, _POLICY = "network", "NetworkPolicy"

RAY_PORTS = (("dashboard", "dashboard", 8265), ("GCS", "gcs-server", 6379), ("Ray client", "client", 10001))
"""Ports of the head at which Ray runs code for its clients: what they are called here, the names of the container's
ports by which KubeRay finds them, and their defaults."""


def network_checks(service: CheckedService) -> Iterator[Check]:
    """Which NetworkPolicies select the pods, and whom they admit to which ports."""
    if service.unread(_POLICY):
        yield Check(_CATEGORY, _POLICY, None, "unknown: NetworkPolicies could not be read")
        return
    policies = service.of_kind(_POLICY)
    covered = [(member, policies_for(member, policies)) for member in service.members if not _on_host(member)]
    closed = [(member, found) for member, found in covered if found]
    if on_host := [member for member in service.members if _on_host(member)]:
        why = f"{_names(on_host)}: hostNetwork: true; NetworkPolicies do not apply to these pods"
        yield Check(_CATEGORY, "hostNetwork", False, why, (Hint(remark="remove hostNetwork from the pod template"),))
    if free := [member for member, found in covered if not found]:
        yield _unselected(service, free)
    if closed:
        names = dict.fromkeys(fields.name(policy) for _, found in closed for policy in found)
        told = f"{', '.join(names)} restricts who connects to {_names(member for member, _ in closed)}"
        yield Check(_CATEGORY, _POLICY, True, told)
        yield from _ports(service, closed)
        yield _enforcement(service)


def _on_host(member: Member) -> bool:
    return fields.flag(member.spec, "hostNetwork")


def _unselected(service: CheckedService, free: Sequence[Member]) -> Check:
    every = [f"{what} ({member.port(name, default)})" for member in free if member.is_head
             for what, name, default in (*RAY_PORTS, ("Serve", SERVE, SERVE_PORT))]  # fmt: skip
    ports = ", ".join(dict.fromkeys(every)) or "all ports"
    detail = f"none selects {_names(free)}: every pod of the cluster can connect to {ports}"
    token = requires_token(service)
    hint = Hint("kubectl explain networkpolicy.spec.ingress")
    if service.is_ours:
        hint = Hint(remark="set spec.security.network: restricted in the spec file, then rayllm-ctl deploy -f FILE")
    detail += "; Ray's ports ask for the token" if token else ""
    return Check(_CATEGORY, _POLICY, None if token else False, detail, (hint,))


def _ports(service: CheckedService, closed: Sequence[tuple[Member, list[Object]]]) -> Iterator[Check]:
    token = requires_token(service)
    heads = [(member, found) for member, found in closed if member.is_head]
    for what, name, default in RAY_PORTS:
        for label, peers in _by_port(heads, what, name, default):
            widest = max((peer.scope for peer in peers), default=PolicyScope.NAMED)
            if widest is PolicyScope.NAMED:
                yield Check(_CATEGORY, label, True, _admits(peers))
                continue
            ok = False if widest is PolicyScope.EVERYONE and not token else None
            names = " ".join(dict.fromkeys(fields.name(policy) for _, found in heads for policy in found))
            hint = Hint(f"kubectl describe networkpolicy {names} -n {service.namespace}")
            yield Check(_CATEGORY, label, ok, _admits(peers) + ("; the token is required" if token else ""), (hint,))
    for label, peers in _by_port(closed, "Serve", SERVE, SERVE_PORT):
        yield Check(_CATEGORY, label, True, _admits(peers))


def _by_port(
    members: Iterable[tuple[Member, list[Object]]], what: str, name: str, default: int
) -> Iterator[tuple[str, list[Peer]]]:
    """Whom the policies admit to a port, by its number, which differs between members only if somebody set it."""
    found: dict[str, dict[Peer, None]] = {}
    for member, policies in members:
        port = member.port(name, default)
        found.setdefault(f"{what} ({port})", {}).update(dict.fromkeys(admitted(member, port, policies)))
    for label, peers in found.items():
        yield label, list(peers)


def _admits(peers: Sequence[Peer]) -> str:
    return f"open to {'; '.join(peer.text for peer in peers)}" if peers else "open to nobody"


def _names(members: Iterable[Member]) -> str:
    return ", ".join(dict.fromkeys(member.who for member in members))


def _enforcement(service: CheckedService) -> Check:
    """Network plugins that do not enforce NetworkPolicies accept them all the same, and Kubernetes says nothing."""
    services = (fields.text(one, "status", "head", "serviceName") for one in service.clusters)
    target = f"{next(filter(None, services), 'HEAD_SERVICE')}.{service.namespace} 8265"
    probe = "kubectl run probe -n OTHER_NAMESPACE --rm -it --restart=Never --image=busybox --"
    return Check(
        _CATEGORY, "enforcement", None, "unknown: the API does not tell whether the network plugin enforces policies",
        (Hint(f"{probe} nc -zvw 3 {target}", "must time out"),),
    )  # fmt: skip

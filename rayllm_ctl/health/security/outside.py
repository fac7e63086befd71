"""What lets clients outside the cluster reach the service, and whether its API requires a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rayllm_ctl.health.security.authentication import requires_token
from rayllm_ctl.health.security.network import RAY_PORTS
from rayllm_ctl.health.security.service import CheckedService, Member
from rayllm_ctl.model.kube.kuberay import SERVE, SERVE_PORT
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.text.hint import Hint

_KEYS, _CATEGORY = "API", "outside the cluster"
_KINDS = ("Service", "Ingress", "HTTPRoute")

_Ports = Mapping[int, str]
"""What the pods listen on, by port: the names of Ray's ports, and that of Serve."""


def key_checks(service: CheckedService) -> Iterator[Check]:
    """Whether clients of the models must send a key."""
    if service.key_required:
        yield Check(_KEYS, "API keys", True, "required")
    elif service.key_required is None:
        yield Check(_KEYS, "API keys", None, "unknown: the service did not answer whether it requires a key")
    else:
        hint = Hint(remark="set spec.gateway.keys: {} in the spec file, then rayllm-ctl deploy -f FILE")
        told = "not required: whoever can connect can use the models"
        yield Check(_KEYS, "API keys", None, told, (hint,) if service.is_ours and service.kind == "RayService" else ())


def outside_checks(service: CheckedService) -> Iterator[Check]:
    """Each object that exposes a port of the pods outside the cluster."""
    ports = _listening(service)
    found = [*_services(service, ports), *_routes(service, ports)]
    yield from found
    unread = [kind for kind in _KINDS if service.unread(kind)]
    if unread:
        yield Check(_CATEGORY, "objects", None, f"unknown: {', '.join(unread)} objects could not be read")
    elif not found:
        told = "no Service of type NodePort or LoadBalancer, no Ingress and no HTTPRoute leads to the pods"
        yield Check(_CATEGORY, "objects", True, told)


def _listening(service: CheckedService) -> _Ports:
    found: dict[int, str] = {}
    for member in service.members:
        found[member.port(SERVE, SERVE_PORT)] = "Serve"
        if member.is_head:
            found |= {member.port(name, default): what for what, name, default in RAY_PORTS}
    return found


def _services(service: CheckedService, ports: _Ports) -> Iterator[Check]:
    for item in service.of_kind("Service"):
        kind = fields.text(item, "spec", "type")
        external = fields.words(item, "spec", "externalIPs")
        members = _selected(service, item)
        if not members or (kind not in ("NodePort", "LoadBalancer") and not external):
            continue
        targets = {_target(port, members) for port in fields.items(item, "spec", "ports")}
        limited = fields.words(item, "spec", "loadBalancerSourceRanges") if kind == "LoadBalancer" else ()
        what = kind if kind in ("NodePort", "LoadBalancer") else f"external IPs {', '.join(external)}"
        if limited:
            what += f" for {', '.join(limited)}"
        yield _verdict(service, f"service/{fields.name(item)}", what, targets, ports, guarded=bool(limited))


def _routes(service: CheckedService, ports: _Ports) -> Iterator[Check]:
    """Ingresses and HTTPRoutes. What is in front of them may authenticate clients; their objects do not tell."""
    services = {fields.name(item): item for item in service.of_kind("Service")}
    for item in service.of_kind("Ingress", "HTTPRoute"):
        targets: set[int] = set()
        for name, port in _backends(item):
            backend = services.get(name, {})
            members = _selected(service, backend)
            entries = fields.items(backend, "spec", "ports") if members else ()
            targets |= {
                _target(one, members) for one in entries if port in (None, one.get("port"), one.get("name"))
            }  # fmt: skip
        if targets:
            subject = f"{fields.kind(item).lower()}/{fields.name(item)}"
            yield _verdict(service, subject, fields.kind(item), targets, ports, guarded=True)


def _backends(item: Object) -> Iterator[tuple[str, int | str | None]]:
    """Name and port of each Service that an Ingress or an HTTPRoute names."""
    if fields.kind(item) == "HTTPRoute":
        for rule in fields.items(item, "spec", "rules"):
            for one in fields.items(rule, "backendRefs"):
                yield fields.text(one, "name"), fields.integer(one, "port") or None
        return
    backends = [fields.mapping(item, "spec", "defaultBackend", "service")]
    backends += [
        fields.mapping(path, "backend", "service")
        for rule in fields.items(item, "spec", "rules")
        for path in fields.items(rule, "http", "paths")
    ]
    for one in backends:
        named = fields.text(one, "port", "name")
        yield fields.text(one, "name"), named or fields.integer(one, "port", "number") or None


def _verdict(
    service: CheckedService, subject: str, what: str, targets: set[int], ports: _Ports, *, guarded: bool
) -> Check:
    """guarded: something may keep unknown clients away: a list of addresses, or a proxy that authenticates them."""
    rays = [f"{ports[port]} ({port})" for port in sorted(targets) if ports.get(port, "Serve") != "Serve"]
    others = [f"{ports.get(port, 'port')} ({port})" for port in sorted(targets) if ports.get(port, "Serve") == "Serve"]
    told = f"{what}: {', '.join([*rays, *others])}"
    look = (Hint(f"kubectl describe {subject.replace('/', ' ')} -n {service.namespace}"),)
    if rays and not requires_token(service):
        return Check(_CATEGORY, subject, False, f"{told}; clients of Ray's ports can run code in the pods", look)
    if rays:
        return Check(_CATEGORY, subject, None, f"{told}; the token of Ray is required", look)
    if service.key_required or not any(ports.get(port) == "Serve" for port in targets):
        return Check(_CATEGORY, subject, True, told)
    if service.key_required is None:
        return Check(_CATEGORY, subject, None, f"{told}; whether the API requires a key is unknown", look)
    why = "the API requires no key" + ("; only what is in front of it may authenticate clients" if guarded else "")
    return Check(_CATEGORY, subject, None if guarded else False, f"{told}; {why}", look)


def _selected(service: CheckedService, item: Object) -> list[Member]:
    """The members to which a Service leads."""
    selector = fields.mapping(item, "spec", "selector")
    return [
        member for member in service.members
        if selector and all(member.labels.get(key) == value for key, value in selector.items())
    ]  # fmt: skip


def _target(port: Object, members: list[Member]) -> int:
    """The number of the pods' port to which a port of a Service leads."""
    if name := fields.text(port, "targetPort"):
        return next((number for one in members if (number := one.port(name, 0))), 0)
    return fields.integer(port, "targetPort") or fields.integer(port, "port")

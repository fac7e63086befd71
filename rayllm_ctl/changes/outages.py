"""Outages caused by a changed or deleted object next to the service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.changes.fields import mapping, mappings

_PODS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod")
_OF_KUBERAY = ("RayService", "RayCluster", "RayJob")
_ADDRESSES = ("Service", "Ingress", "HTTPRoute", "GRPCRoute", "Gateway")
_EXPOSED = {"ClusterIP": 0, "NodePort": 1, "LoadBalancer": 2}
"""Types of Services, by where they can be reached from: each from where those before it can, and from further."""

Item = Mapping[str, Any]


def deleted(item: Item) -> str:
    """The outage caused by the deletion of an object; empty if there is none, or it is unknown."""
    kind = item.get("kind")
    if kind == "Namespace":
        return "everything in the namespace is deleted with it"
    if kind in (*_PODS, *_OF_KUBERAY):
        return "its pods are deleted with it" if replicas(item) else ""
    return "its addresses stop working" if kind in _ADDRESSES else ""


def replicas(item: Item) -> int:
    """The replicas that an object requests."""
    count = mapping(item, "spec").get("replicas")
    return count if isinstance(count, int) else 1


def changed(before: Item, after: Item) -> Iterator[str]:
    """Outages other than those from replaced pods."""
    kind, old, new = after.get("kind"), mapping(before, "spec"), mapping(after, "spec")
    if kind in _PODS and replicas(before) and not replicas(after):
        yield f"the {kind} is scaled to zero: all its pods are deleted; it is unavailable until it has replicas again"
    elif kind == "Service":
        yield from _service(old, new)
    elif kind == "Ingress":
        yield from _ingress(old, new)
    elif kind in ("HTTPRoute", "GRPCRoute"):
        yield from _route(old, new)


def replaces_all(item: Item) -> bool:
    """Whether all pods of a Deployment, StatefulSet or DaemonSet may be replaced at once."""
    spec, count = mapping(item, "spec"), replicas(item)
    if item.get("kind") == "StatefulSet":
        return count <= 1  # its pods have fixed names: each is deleted before its replacement is created
    if item.get("kind") != "Deployment":
        return False
    strategy = mapping(spec, "strategy")
    if strategy.get("type") == "Recreate":
        return True
    rolling = mapping(strategy, "rollingUpdate")
    down = _share(rolling.get("maxUnavailable", "25%"), count, up=False)
    surge = _share(rolling.get("maxSurge", "25%"), count, up=True)
    return max(down, int(down == surge == 0)) >= count


def _share(value: Any, count: int, *, up: bool) -> int:
    """A number, or a percentage of `count`, as Kubernetes rounds it (intstr.GetScaledValueFromIntOrPercent)."""
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        exact = int(value.removesuffix("%")) * count
        return -(-exact // 100) if up else exact // 100
    return value if isinstance(value, int) else 0


def _service(old: Item, new: Item) -> Iterator[str]:
    before, after = mapping(old, "selector"), mapping(new, "selector")
    if before and not after:
        yield "without a selector nothing keeps the addresses of the Service up to date"
    elif not after.items() <= before.items():
        chosen = ", ".join(f"{key}={value}" for key, value in sorted(after.items()))
        yield f"the Service sends requests to other pods ({chosen}): it is unavailable while none of them is ready"
    kinds = [str(side.get("type") or "ClusterIP") for side in (old, new)]
    if kinds[0] != kinds[1] and _EXPOSED.get(kinds[1], -1) < _EXPOSED.get(kinds[0], -1):
        yield f"the Service loses its {kinds[0]} addresses: clients that use them get no answer"
    elif kinds[1] == "ExternalName" and old.get("externalName", new.get("externalName")) != new.get("externalName"):
        yield "the Service points to another host"
    ports, targets = _ports(old), dict(_ports(new))
    if gone := [str(port) for port, _ in ports if port not in targets]:
        yield f"port {', '.join(gone)} of the Service stops working"
    moved = [f"{port} ({targets[port]})" for port, to in ports if targets.get(port, to) != to]
    if moved:
        yield f"requests to port {', '.join(moved)} go to another port of the pods, which may not answer there"


def _ports(spec: Item) -> list[tuple[str, str]]:
    """The ports of a Service, and those of its pods."""
    found = []
    for one in mappings(spec, "ports"):
        protocol = str(one.get("protocol") or "TCP")
        name = str(one.get("port")) if protocol == "TCP" else f"{one.get('port')}/{protocol}"
        found.append((name, f"to {one.get('targetPort') or one.get('port')}"))
    return found


def _ingress(old: Item, new: Item) -> Iterator[str]:
    if old.get("ingressClassName") not in (None, new.get("ingressClassName")):
        yield "another controller serves the Ingress, at other addresses"
    yield from _lost(_paths(old), _paths(new))


def _paths(spec: Item) -> dict[str, set[str]]:
    """The backends of an Ingress by host and path."""
    found: dict[str, set[str]] = {}
    if default := mapping(spec, "defaultBackend"):
        found["(default)"] = {_text(default)}
    for rule in mappings(spec, "rules"):
        for one in mappings(rule.get("http"), "paths"):
            where = f"{rule.get('host') or '*'}{one.get('path') or '/'}"
            found.setdefault(where, set()).add(_text(one.get("backend")))
    return found


def _route(old: Item, new: Item) -> Iterator[str]:
    parents = [{_text(one) for one in mappings(side, "parentRefs")} for side in (old, new)]
    if parents[0] - parents[1]:
        yield "the route is removed from a Gateway, where it stops working"
    before, after = ([str(one) for one in side.get("hostnames") or ()] for side in (old, new))
    if after and (gone := [name for name in before if name not in after] or ([] if before else ["other hosts"])):
        yield f"{', '.join(gone)} stops working"
    yield from _lost(_matches(old), _matches(new))


def _matches(spec: Item) -> dict[str, set[str]]:
    """The backends that get requests, by what a route matches."""
    found: dict[str, set[str]] = {}
    for rule in mappings(spec, "rules"):
        backends = {
            _text({key: value for key, value in one.items() if key not in ("weight", "filters")})
            for one in mappings(rule, "backendRefs")
            if one.get("weight") != 0
        }
        for match in mappings(rule, "matches") or [{"path": {"type": "PathPrefix", "value": "/"}}]:
            path = mapping(match, "path")
            whole = set(match) == {"path"} and path.get("type", "PathPrefix") == "PathPrefix"
            found.setdefault(str(path.get("value", "/")) if whole else _text(match), set()).update(backends)
    return found


def _lost(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> Iterator[str]:
    if gone := [where for where, backends in before.items() if backends and not after.get(where)]:
        yield f"{', '.join(gone)} stops working"
    moved = [where for where, backends in before.items() if after.get(where) and not backends & after[where]]
    if moved:
        yield f"requests to {', '.join(moved)} go to another Service: there is no answer while that has no ready pod"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)

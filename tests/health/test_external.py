"""What the objects that expose a service say of its addresses outside the cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from rayllm_ctl.health import diagnose
from rayllm_ctl.model.kube.labels import HTTP_ROUTE, INGRESS, MODEL
from rayllm_ctl.model.observed.external import ExternalAddress, format_external
from rayllm_ctl.model.observed.health import Snapshot, State
from tests.health.cases import NAME, NAMESPACE, SAMPLES, load_case

HERE = {"name": NAME, "namespace": NAMESPACE, "generation": 2}
SERVICE = {"kind": "Service", "metadata": {**HERE, "name": f"{NAME}-serve-svc"}}
IP, HOST = {"ip": "203.0.113.7"}, {"hostname": "lb.example.com"}
BALANCED: dict[str, Any] = {"serveService": {"spec": {"type": "LoadBalancer"}}}
LISTENERS = [
    {"name": "plain", "protocol": "HTTP", "port": 80, "hostname": "*.example.com"},
    {"name": "tls", "protocol": "HTTPS", "port": 8443, "hostname": "*.example.com"},
    {"name": "raw", "protocol": "TCP", "port": 9000},
]
PROGRAMMED = {
    "conditions": [{"type": "Programmed", "status": "True"}],
    "addresses": [{"type": "IPAddress", "value": "203.0.113.9"}],
}


def service(*addresses: Mapping[str, str], type_: str = "LoadBalancer", port: int = 8000) -> dict[str, Any]:
    spec = {"type": type_, "ports": [{"name": "serve-grpc", "port": 9000}, {"name": "serve", "port": port}]}
    return {**SERVICE, "spec": spec, "status": {"loadBalancer": {"ingress": list(addresses)}}}


def ingress(*addresses: Mapping[str, str], path: str = "/", **spec: Any) -> dict[str, Any]:
    rules = [{"host": "q.example.com", "http": {"paths": [{"path": path}]}}]
    return {
        "kind": "Ingress", "metadata": HERE, "spec": {"rules": rules, **spec},
        "status": {"loadBalancer": {"ingress": list(addresses)}},
    }  # fmt: skip


def route(*conditions: Mapping[str, Any], section: str = "", **spec: Any) -> dict[str, Any]:
    parent = {"name": "public", "namespace": "infra"} | ({"sectionName": section} if section else {})
    told = [{"parentRef": parent, "conditions": list(conditions)}] if conditions else []
    shown = {"parentRefs": [parent], "hostnames": ["q.example.com"], **spec}
    return {"kind": "HTTPRoute", "metadata": HERE, "spec": shown, "status": {"parents": told}}


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", seen: int = 2) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": seen}


def gateway(status: Mapping[str, Any] = PROGRAMMED, **listener: Any) -> dict[str, Any]:
    listeners = [{**LISTENERS[0], **listener}] if listener else LISTENERS
    where = {"name": "public", "namespace": "infra"}
    return {"kind": "Gateway", "metadata": where, "spec": {"listeners": listeners}, "status": status}


ACCEPTED = (condition("Accepted"), condition("ResolvedRefs"))
WARNING = {
    "kind": "Event", "metadata": {"name": "e", "namespace": NAMESPACE}, "type": "Warning", "message": "no quota left",
    "reason": "SyncLoadBalancerFailed", "involvedObject": {"kind": "Service", "name": f"{NAME}-serve-svc"},
}  # fmt: skip


def seen(annotation: str, *objects: Mapping[str, Any], unread: str = "", **spec: Any) -> tuple[ExternalAddress, ...]:
    """What is said of the sample service, next to these objects."""
    base = load_case(SAMPLES / "healthy")
    annotations = {MODEL: "m", **({annotation: NAME} if annotation else {})}
    kept: list[Mapping[str, Any]] = []
    for item in base.objects:
        if item["kind"] == "RayService":
            metadata = {**item["metadata"], "annotations": annotations}
            kept.append({**item, "metadata": metadata, "spec": {**item["spec"], **spec}})
        elif item["kind"] != "Service":
            kept.append(item)
    snapshot = dataclasses.replace(base, objects=(*kept, *objects), unread=frozenset(filter(None, [unread])))
    health = diagnose(snapshot, NAME, NAMESPACE)
    assert health.state is State.READY  # that of the model, whatever becomes of what exposes it
    return health.external


CASES: dict[str, tuple[Callable[[], tuple[ExternalAddress, ...]], str]] = {
    "not exposed": (partial(seen, "", service(type_="ClusterIP")), ""),
    "an address and a name": (
        partial(seen, "", service(IP, HOST), **BALANCED),
        "http://203.0.113.7:8000/v1  http://lb.example.com:8000/v1 (service/demo-serve-svc)",
    ),
    "IPv6 at the default port": (
        partial(seen, "", service({"ip": "2001:db8::7"}, port=80)),
        "http://[2001:db8::7]/v1 (service/demo-serve-svc)",
    ),
    "no address": (
        partial(seen, "", service(), WARNING, **BALANCED),
        "Pending: no address has been assigned yet; event SyncLoadBalancerFailed: no quota left (service/demo-",
    ),
    "no Service": (partial(seen, "", **BALANCED), "Pending: KubeRay creates the Service when the service runs"),
    "unread Service": (
        partial(seen, "", unread="Service", **BALANCED),
        "Unknown: Service demo-serve-svc could not be read",
    ),
    "old type": (
        partial(seen, "", service(type_="ClusterIP"), **BALANCED),
        "Pending: the Service is still of type ClusterIP",
    ),
    "ingress": (partial(seen, INGRESS, ingress(IP)), "http://q.example.com/v1 (ingress/demo)"),
    "ingress with TLS": (
        partial(seen, INGRESS, ingress(IP, path="/v1", tls=[{"hosts": ["q.example.com"]}])),
        "https://q.example.com/v1 (ingress",
    ),
    "ingress that rewrites": (
        partial(seen, INGRESS, ingress(IP, path="/qwen/")),
        "http://q.example.com/qwen/v1 (ingress/demo)",
    ),
    "ingress without a host": (
        partial(seen, INGRESS, ingress(IP, rules=[{"http": {"paths": [{"path": "/"}]}}])),
        "http://203.0.113.7/v1 (ingress/demo)",
    ),
    "ingress without an address": (
        partial(
            seen, INGRESS, ingress(ingressClassName="nginx"), {"kind": "IngressClass", "metadata": {"name": "nginx"}}
        ),
        "http://q.example.com/v1  Pending: no address has been assigned yet by the controller of IngressClass nginx",
    ),
    "unknown IngressClass": (
        partial(seen, INGRESS, ingress(ingressClassName="nginx")),
        "Rejected: IngressClass nginx does not exist (ingress/demo)",
    ),
    "unread IngressClass": (
        partial(seen, INGRESS, ingress(ingressClassName="nginx"), unread="IngressClass"),
        "Pending: no address has been assigned",
    ),
    "no IngressClass": (
        partial(seen, INGRESS, ingress()),
        "no IngressClass is named, and the cluster had no default one",
    ),
    "no ingress": (partial(seen, INGRESS), "Rejected: Ingress demo does not exist (ingress/demo)"),
    "unread ingress": (
        partial(seen, INGRESS, unread="Ingress"),
        "Unknown: Ingress demo could not be read (ingress/demo)",
    ),
    "route": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED), gateway()),
        "https://q.example.com:8443/v1  http://q.example.com/v1 (httproute/demo)",
    ),
    "route of a listener": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED, section="plain"), gateway()),
        "http://q.example.com/v1 (httproute/demo)",
    ),
    "route without a host name": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED, hostnames=[]), gateway(hostname="all.example.com")),
        "http://all.example.com/v1 (httproute/demo)",
    ),
    "any host name": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED, hostnames=[]), gateway(hostname="")),
        "http://203.0.113.9/v1 (httproute/demo)",
    ),
    "wildcard of the route": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED, hostnames=["*.example.com"]), gateway(hostname="all.example.com")),
        "http://all.example.com/v1 (httproute/demo)",
    ),
    "rejected route": (
        partial(
            seen,
            HTTP_ROUTE,
            route(condition("Accepted", "False", "NotAllowedByListeners", "not from\nhere")),
            gateway(),
        ),
        "Rejected: gateway infra/public: Accepted is False (NotAllowedByListeners: not from here) (httproute/demo)",
    ),
    "no backend yet": (
        partial(seen, HTTP_ROUTE, route(ACCEPTED[0], condition("ResolvedRefs", "False", "BackendNotFound")), gateway()),
        "Pending: gateway infra/public: ResolvedRefs is False (BackendNotFound)",
    ),
    "new route": (
        partial(seen, HTTP_ROUTE, route(), gateway()),
        "Pending: no controller of gateway infra/public has accepted",
    ),
    "changed route": (
        partial(seen, HTTP_ROUTE, route(condition("Accepted", seen=1)), gateway()),
        "Pending: the controller of gateway infra/public has not taken up the last change",
    ),
    "no gateway": (partial(seen, HTTP_ROUTE, route(*ACCEPTED)), "Rejected: gateway infra/public does not exist"),
    "unread gateway": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED), unread="Gateway"),
        "Unknown: gateway infra/public accepts it for q.example.com; its own listeners and addresses could not be read",
    ),
    "gateway without an address": (
        partial(
            seen,
            HTTP_ROUTE,
            route(*ACCEPTED),
            gateway({"conditions": [condition("Programmed", "False", "AddressNot")]}),
        ),
        "Pending: gateway infra/public has no address yet (AddressNot)",
    ),
    "no listener": (
        partial(seen, HTTP_ROUTE, route(*ACCEPTED), gateway(hostname="other.example.net")),
        "Rejected: gateway infra/public has no HTTP listener for its host names",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_address(name: str) -> None:
    look, told = CASES[name]
    found = look()
    assert told in "\n".join(map(format_external, found))
    assert len(found) == (1 if told else 0)


def test_a_service_with_applications_of_its_own_has_no_openai_path() -> None:
    base = load_case(SAMPLES / "healthy")
    objects = [item for item in base.objects if item["kind"] != "Service"]
    snapshot = Snapshot((*objects, service(IP)), base.now, base.serve)
    assert diagnose(snapshot, NAME, NAMESPACE).external[0].urls == ("http://203.0.113.7:8000",)

"""Whether clients outside the cluster reach a service, and at which URLs.

It says nothing of the model: a service that serves is Ready whatever becomes of its Ingress.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.http_route import route_addresses
from rayllm_ctl.health.objects.urls import assigned, base_url, unique
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import HTTP_ROUTE, INGRESS
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.external import ExternalAddress, Reach
from rayllm_ctl.model.observed.health import Object


def external_addresses(context: ServiceContext) -> tuple[ExternalAddress, ...]:
    """An address for each object that exposes the service; for an HTTPRoute one for each of its Gateways."""
    service = context.service
    if service is None or service.deleted is not None:
        return ()
    api = "/v1" if service.model else ""
    found = [*_load_balancer(context, service.item, api)]
    if name := fields.annotation(service.item, INGRESS):
        ingress = _object(context, "Ingress", name)
        found.append(_ingress(context, ingress, api) if ingress else _missing(context, "Ingress", name))
    if name := fields.annotation(service.item, HTTP_ROUTE):
        route = _object(context, "HTTPRoute", name)
        found += route_addresses(context, route, api) if route else [_missing(context, "HTTPRoute", name)]
    return tuple(found)


def _load_balancer(context: ServiceContext, workload: Object, api: str) -> Iterator[ExternalAddress]:
    """The Service, if it is, or is to become, a LoadBalancer."""
    name = context.serve_service
    subject, service = f"service/{name}", _object(context, "Service", name)
    actual = fields.text(service, "spec", "type") or "ClusterIP"
    declared = fields.text(workload, "spec", "serveService", "spec", "type") == "LoadBalancer"
    if service is not None and actual == "LoadBalancer":
        ports = {
            fields.text(one, "name"): fields.integer(one, "port") for one in fields.items(service, "spec", "ports")
        }
        port = ports.get(kuberay.SERVE) or next(iter(ports.values()), kuberay.SERVE_PORT)
        urls = unique(base_url("http", host, api, port=port) for host in assigned(service))
        yield ExternalAddress(subject, Reach.READY, urls) if urls else _pending(context, service, (), "")
    elif declared and service is not None:
        yield ExternalAddress(subject, Reach.PENDING, message=f"the Service is still of type {actual}")
    elif declared and "Service" in context.snapshot.unread:
        yield _missing(context, "Service", name)
    elif declared:
        why = "KubeRay creates the Service when the service runs"
        yield ExternalAddress(subject, Reach.PENDING, message=why)


def _ingress(context: ServiceContext, item: Object, api: str) -> ExternalAddress:
    secured = {host for entry in fields.items(item, "spec", "tls") for host in fields.words(entry, "hosts")}
    urls = unique(
        base_url("https" if host in secured else "http", host, api, prefix=fields.text(path, "path"))
        for rule in fields.items(item, "spec", "rules")
        for host in filter(None, (fields.text(rule, "host"),) if fields.text(rule, "host") else assigned(item))
        for path in fields.items(rule, "http", "paths")
    )
    if assigned(item):
        return ExternalAddress(_subject(item), Reach.READY, urls)
    named = fields.text(item, "spec", "ingressClassName")
    known = {fields.name(one) for one in context.of_kind("IngressClass", everywhere=True)}
    if named and named not in known and "IngressClass" not in context.snapshot.unread:
        return ExternalAddress(_subject(item), Reach.REJECTED, urls, f"IngressClass {named} does not exist")
    if named or fields.annotation(item, "kubernetes.io/ingress.class"):
        return _pending(context, item, urls, f" by the controller of IngressClass {named}" if named else "")
    return _pending(context, item, urls, "; no IngressClass is named, and the cluster had no default one")


def _pending(context: ServiceContext, item: Object, urls: tuple[str, ...], detail: str) -> ExternalAddress:
    """No address: with the last warning about the object, as a cloud's controller writes it."""
    warnings = [event for event in context.events.of(fields.kind(item), fields.name(item)) if event.warning]
    quoted = f"; {warnings[-1].quoted()}" if warnings else ""
    return ExternalAddress(_subject(item), Reach.PENDING, urls, f"no address has been assigned yet{detail}{quoted}")


def _missing(context: ServiceContext, kind: str, name: str) -> ExternalAddress:
    subject = f"{kind.lower()}/{name}"
    if kind in context.snapshot.unread:
        return ExternalAddress(subject, Reach.UNKNOWN, message=f"{kind} {name} could not be read")
    return ExternalAddress(subject, Reach.REJECTED, message=f"{kind} {name} does not exist")


def _object(context: ServiceContext, kind: str, name: str) -> Object | None:
    return next((item for item in context.of_kind(kind) if fields.name(item) == name), None)


def _subject(item: Object) -> str:
    return f"{fields.kind(item).lower()}/{fields.name(item)}"

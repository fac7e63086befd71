"""What the Gateways of an HTTPRoute make of it: accepted or not, and at which URLs."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.urls import base_url, unique
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.external import ExternalAddress, Reach
from rayllm_ctl.model.observed.health import Object

_MAY_PASS = frozenset({"BackendNotFound", "Pending"})
"""Reasons of a condition that is False only until something else is there: KubeRay creates the Service of a RayService
when that runs. Reasons are those of the Gateway API (apis/v1/shared_types.go, v1.4)."""


def route_addresses(context: ServiceContext, route: Object, api: str) -> Iterator[ExternalAddress]:
    """An address for each Gateway that the route names."""
    for parent in fields.items(route, "spec", "parentRefs"):
        if fields.at(parent, "kind") in (None, "Gateway"):
            yield _address(context, route, parent, api)


def _address(context: ServiceContext, route: Object, parent: Object, api: str) -> ExternalAddress:
    where, name = fields.text(parent, "namespace") or context.namespace, fields.text(parent, "name")
    gateways = context.of_kind("Gateway", everywhere=True)
    gateway = next((one for one in gateways if (fields.namespace(one), fields.name(one)) == (where, name)), None)
    subject, shown = f"httproute/{fields.name(route)}", f"gateway {where}/{name}"
    if gateway is None and not context.unread("Gateway"):
        return ExternalAddress(subject, Reach.REJECTED, message=f"{shown} does not exist")
    urls = unique(_urls(route, gateway, fields.text(parent, "sectionName"), api)) if gateway else ()
    state, why = _attached(context, route, parent, shown)
    if state is not Reach.READY:
        return ExternalAddress(subject, state, urls, why)
    if gateway is None:
        hosts = ", ".join(fields.words(route, "spec", "hostnames"))
        why = f"{shown} accepts it{f' for {hosts}' if hosts else ''}; its own listeners and addresses could not be read"
        return ExternalAddress(subject, Reach.UNKNOWN, message=why)
    programmed = fields.condition(gateway, "Programmed")
    if programmed.get("status") != "True" or not fields.items(gateway, "status", "addresses"):
        return ExternalAddress(subject, Reach.PENDING, urls, f"{shown} has no address yet{_reason(programmed)}")
    if not urls:
        return ExternalAddress(subject, Reach.REJECTED, message=f"{shown} has no HTTP listener for its host names")
    return ExternalAddress(subject, Reach.READY, urls)


def _attached(context: ServiceContext, route: Object, parent: Object, shown: str) -> tuple[Reach, str]:
    """Whether the Gateway's controller took the route up as it is now."""
    found = next((one for one in fields.items(route, "status", "parents") if _same(context, one, parent)), {})
    generation = fields.integer(route, "metadata", "generation")
    conditions = {fields.text(one, "type"): one for one in fields.items(found, "conditions")}
    accepted = conditions.get("Accepted", {})
    if fields.integer(accepted, "observedGeneration", default=generation) < generation:
        return Reach.PENDING, f"the controller of {shown} has not taken up the last change"
    for kind in ("Accepted", "ResolvedRefs"):
        one = conditions.get(kind, {})
        if one.get("status") == "False":
            state = Reach.PENDING if one.get("reason") in _MAY_PASS else Reach.REJECTED
            return state, f"{shown}: {kind} is False{_reason(one)}"
    if accepted.get("status") != "True":
        return Reach.PENDING, f"no controller of {shown} has accepted it yet{_reason(accepted)}"
    return Reach.READY, ""


def _same(context: ServiceContext, status: Object, parent: Object) -> bool:
    """Whether an entry of status.parents is about this entry of spec.parentRefs."""
    told = fields.mapping(status, "parentRef")
    return (
        fields.text(told, "name") == fields.text(parent, "name")
        and (fields.text(told, "namespace") or context.namespace)
        == (fields.text(parent, "namespace") or context.namespace)
        and fields.text(told, "sectionName") == fields.text(parent, "sectionName")
    )


def _reason(condition: Object) -> str:
    told = ": ".join(filter(None, (fields.text(condition, "reason"), fields.text(condition, "message"))))
    return f" ({' '.join(told.split())})" if told else ""


def _urls(route: Object, gateway: Object, section: str, api: str) -> Iterator[str]:
    for listener in fields.items(gateway, "spec", "listeners"):
        scheme = fields.text(listener, "protocol").lower()
        if scheme not in ("http", "https") or section not in ("", fields.text(listener, "name")):
            continue
        port = fields.integer(listener, "port")
        for host in _hosts(fields.words(route, "spec", "hostnames"), fields.text(listener, "hostname"), gateway):
            yield base_url(scheme, host, api, port=port)


def _hosts(wanted: tuple[str, ...], admitted: str, gateway: Object) -> Iterator[str]:
    """The host names that route and listener have in common; the Gateway's addresses where neither names any."""
    if not wanted and not admitted:
        yield from filter(None, (fields.text(one, "value") for one in fields.items(gateway, "status", "addresses")))
    elif not wanted or not admitted:
        yield from wanted or (admitted,)
    for host in wanted if admitted else ():
        if host == admitted or (admitted.startswith("*.") and host.endswith(admitted[1:])):
            yield host
        elif host.startswith("*.") and admitted.endswith(host[1:]):
            yield admitted

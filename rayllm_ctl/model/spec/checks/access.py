"""Checks of the parts of an LLMService that become objects next to it: exposure, network access, monitoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.kube.labels import SERVICE, service_labels
from rayllm_ctl.model.kube.names import namespace_problem
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential
from rayllm_ctl.model.spec.checks.pod_fields import is_label_key, is_object_name
from rayllm_ctl.model.spec.exposure import Exposure, Gateway, Ingress
from rayllm_ctl.model.spec.operations import Availability, Monitor, Monitoring
from rayllm_ctl.model.spec.ray_options import INCREMENTAL
from rayllm_ctl.model.spec.security import NetworkPeer, Security
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.patterns import LABEL_VALUE, UNSENDABLE, Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_LONGEST_SECONDS = 99_999
"""The Gateway API takes numbers of up to five digits."""

ROUTED_PATH = Pattern(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@%-]+/?)*")

_SELECTOR_KEYS = ("matchLabels", "matchExpressions")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def access_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    yield from _exposure(service.exposure)
    if service.upgrade.strategy == INCREMENTAL and service.exposure != Exposure():
        yield Problem(
            ("spec", "exposure"),
            f"cannot be combined with spec.upgrade.strategy: {INCREMENTAL}, for which KubeRay makes a Gateway and "
            "a Service for each Ray cluster instead of one Service",
        )
    yield from _security(service)
    yield from _availability(service.availability)
    yield from _monitoring(service.monitoring)


def _exposure(exposure: Exposure) -> Iterator[Problem]:
    at: Path = ("spec", "exposure")
    yield from _annotations((*at, "annotations"), exposure.annotations)
    if exposure.source_ranges and exposure.type != "LoadBalancer":
        yield Problem((*at, "sourceRanges"), "requires spec.exposure.type: LoadBalancer")
    for index, block in enumerate(exposure.source_ranges):
        yield from _cidr((*at, "sourceRanges", index), block)
    if exposure.ingress is not None:
        yield from _ingress((*at, "ingress"), exposure.ingress)
    if exposure.gateway is not None:
        yield from _gateway((*at, "gateway"), exposure.gateway)


def _ingress(at: Path, ingress: Ingress) -> Iterator[Problem]:
    yield from _host((*at, "host"), ingress.host)
    if ingress.class_name is not None:
        yield from _object_name((*at, "className"), ingress.class_name)
    if not ROUTED_PATH.fullmatch(ingress.path):
        yield Problem((*at, "path"), f"{quoted(ingress.path)} is not a valid path prefix, such as / or /v1")
    if ingress.tls is not None:
        yield from _object_name((*at, "tls", "secretName"), ingress.tls)
    yield from _annotations((*at, "annotations"), ingress.annotations)


def _gateway(at: Path, gateway: Gateway) -> Iterator[Problem]:
    yield from _object_name((*at, "name"), gateway.name)
    if gateway.namespace is not None and (problem := namespace_problem(gateway.namespace)):
        yield Problem((*at, "namespace"), f"{quoted(gateway.namespace)} is not a valid namespace: {problem}")
    if gateway.section_name is not None:
        yield from _object_name((*at, "sectionName"), gateway.section_name)
    for index, host in enumerate(gateway.hostnames):
        yield from _host((*at, "hostnames", index), host)
    if len(gateway.hostnames) > 16:
        yield Problem((*at, "hostnames"), f"must be at most 16, not {len(gateway.hostnames)}")
    yield from _seconds((*at, "requestTimeout"), gateway.request_timeout, least=0)


def _security(service: LLMService) -> Iterator[Problem]:
    security, at = service.security, ("spec", "security")
    for name, peers in (
        ("allowFrom", security.allow_from),
        ("allowDashboardFrom", security.allow_dashboard_from),
        ("allowMetricsFrom", security.allow_metrics_from),
    ):
        if peers and security.network != "restricted":
            yield Problem((*at, name), "requires spec.security.network: restricted")
        for index, peer in enumerate(peers):
            yield from _peer((*at, name, index), peer)
    if problem := namespace_problem(security.operator_namespace):
        yield Problem(
            (*at, "operatorNamespace"), f"{quoted(security.operator_namespace)} is not a valid namespace: {problem}"
        )
    if security.network == "restricted":
        yield from _locked_out(service, security)


def _locked_out(service: LLMService, security: Security) -> Iterator[Problem]:
    """Clients that the spec enables but that could not connect."""
    exposed = "spec.exposure" if service.exposure.beyond_the_cluster else ""
    exposed = f"spec.upgrade.strategy: {INCREMENTAL}" if service.upgrade.strategy == INCREMENTAL else exposed
    if exposed and not security.allow_from:
        yield Problem(
            ("spec", "security", "allowFrom"),
            f"required with {exposed}: by default only pods of the namespace may connect, and no load balancer, "
            "Ingress controller or Gateway",
            "allowFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]",
        )
    if service.monitoring != Monitoring() and not security.allow_metrics_from:
        yield Problem(
            ("spec", "security", "allowMetricsFrom"),
            "required with spec.monitoring: Prometheus could not connect to the metrics ports",
            "allowMetricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]",
        )


def _peer(at: Path, peer: NetworkPeer) -> Iterator[Problem]:
    selectors = (("podSelector", peer.pod_selector), ("namespaceSelector", peer.namespace_selector))
    given = [name for name, selector in selectors if selector is not None]
    if peer.ip_block is None and not given:
        yield Problem(at, "must have podSelector, namespaceSelector or ipBlock")
    if peer.ip_block is not None:
        if given:
            yield Problem((*at, "ipBlock"), f"cannot be combined with {given[0]}")
        yield from _ip_block((*at, "ipBlock"), peer.ip_block)
    for name, selector in selectors:
        if selector is not None:
            yield from _selector((*at, name), selector)


def _ip_block(at: Path, block: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _unknown(at, block, ("cidr", "except"))
    if not isinstance(block.get("cidr"), str):
        yield Problem((*at, "cidr"), "required field is missing, such as 10.0.0.0/8")
    else:
        yield from _cidr((*at, "cidr"), block["cidr"])
    excepted = block.get("except", [])
    if not isinstance(excepted, (list, tuple)):
        yield Problem((*at, "except"), "expected a list of CIDRs")
        return
    for index, item in enumerate(excepted):
        yield from _cidr((*at, "except", index), str(item))


def _selector(at: Path, selector: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a label selector as Kubernetes writes it."""
    yield from _unknown(at, selector, _SELECTOR_KEYS)
    labels = selector.get("matchLabels", {})
    if isinstance(labels, Mapping):
        yield from _labels((*at, "matchLabels"), labels)
    else:
        yield Problem((*at, "matchLabels"), "expected a mapping of labels")
    expressions = selector.get("matchExpressions", [])
    if not isinstance(expressions, (list, tuple)):
        yield Problem((*at, "matchExpressions"), "expected a list")
        return
    for index, expression in enumerate(expressions):
        yield from _expression((*at, "matchExpressions", index), expression)


def _expression(at: Path, expression: Any) -> Iterator[Problem]:
    if not isinstance(expression, Mapping):
        yield Problem(at, "expected a mapping with key, operator and values")
        return
    yield from _unknown(at, expression, ("key", "operator", "values"))
    if not is_label_key(str(expression.get("key", ""))):
        yield Problem((*at, "key"), f"{quoted(str(expression.get('key', '')))} is not a valid label key")
    operator, values = expression.get("operator"), expression.get("values", [])
    if operator not in _OPERATORS:
        yield Problem(
            (*at, "operator"),
            f"{quoted(str(operator))} is not supported (supported values: {', '.join(_OPERATORS)})",
        )
    elif not isinstance(values, (list, tuple)) or bool(values) != (operator in ("In", "NotIn")):
        yield Problem((*at, "values"), f"{operator} {'requires' if operator in ('In', 'NotIn') else 'takes no'} values")
    else:
        for index, value in enumerate(values):
            if not (isinstance(value, str) and LABEL_VALUE.fullmatch(value)):
                yield Problem((*at, "values", index), f"{quoted(str(value))} is not a valid label value")


def _availability(availability: Availability) -> Iterator[Problem]:
    budget = availability.pod_disruption_budget
    if budget is not None and not 1 <= budget.min_available < 2**31:
        yield Problem(
            ("spec", "availability", "podDisruptionBudget", "minAvailable"),
            f"must be at least 1, not {budget.min_available}",
        )


def _monitoring(monitoring: Monitoring) -> Iterator[Problem]:
    at: Path = ("spec", "monitoring")
    if monitoring.pod_monitor is not None and monitoring.service_monitor is not None:
        yield Problem(at, "podMonitor and serviceMonitor cannot be combined: every pod would be scraped twice")
    monitors: tuple[tuple[str, Monitor | None], ...] = (
        ("podMonitor", monitoring.pod_monitor),
        ("serviceMonitor", monitoring.service_monitor),
    )
    for name, monitor in monitors:
        if monitor is not None:
            yield from _labels((*at, name, "labels"), monitor.labels)
            for key in monitor.labels.keys() & (*service_labels("", ""), SERVICE):
                yield Problem((*at, name, "labels", key), "is reserved: rayllm-ctl sets this label itself")
            yield from _seconds((*at, name, "interval"), monitor.interval, least=0.001)


def _labels(at: Path, labels: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in labels.items():
        if not is_label_key(key):
            yield Problem((*at, key), f"{quoted(key)} is not a valid label key")
        if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
            yield Problem((*at, key), f"{quoted(str(value))} is not a valid label value")


def _annotations(at: Path, annotations: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in annotations.items():
        if not is_label_key(key):
            yield Problem((*at, key), f"{quoted(key)} is not a valid annotation key")
        if UNSENDABLE.search(value):
            yield Problem((*at, key), "the value contains control characters that Kubernetes rejects")
        elif holds_a_credential(value):
            yield Problem((*at, key), "the value looks like a credential; anyone who can read the object could read it")


def _host(at: Path, host: str) -> Iterator[Problem]:
    if not is_object_name(host.removeprefix("*.")):
        yield Problem(at, f"{quoted(host)} is not a valid host name, such as llm.example.com or *.example.com")


def _object_name(at: Path, name: str) -> Iterator[Problem]:
    if not is_object_name(name):
        yield Problem(
            at, f"{quoted(name)} is not a valid object name: it must consist of lower-case letters, digits, '-' and '.'"
        )


def _cidr(at: Path, block: str) -> Iterator[Problem]:
    import ipaddress

    try:
        network = ipaddress.ip_network(block) if "/" in block else None
    except ValueError:
        network = None
    if network is None:
        yield Problem(at, f"{quoted(block)} is not a valid CIDR, such as 10.0.0.0/8")


def _seconds(at: Path, seconds: float | None, *, least: float) -> Iterator[Problem]:
    if seconds is None:
        return
    if not least <= seconds <= _LONGEST_SECONDS:
        yield Problem(at, f"must be at least {least:g} and at most {_LONGEST_SECONDS} seconds, not {seconds:g}")
    elif seconds != int(seconds) and (seconds >= 100 or abs(seconds * 1000 - round(seconds * 1000)) > 1e-6):
        yield Problem(at, f"must be whole seconds, or whole milliseconds below 100 s, not {seconds}")


def _unknown(at: Path, mapping: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[Problem]:
    for key in mapping:
        if key not in known:
            yield Problem((*at, key), f"unknown field (supported fields: {', '.join(known)})")

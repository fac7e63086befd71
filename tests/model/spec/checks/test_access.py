"""What is wrong with exposure, network access, budgets and monitors is reported with its path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.exposure import Exposure, Gateway, Ingress
from rayllm_ctl.model.spec.operations import Availability, Monitor, Monitoring, PodDisruptionBudget
from rayllm_ctl.model.spec.ray_options import INCREMENTAL, Upgrade
from rayllm_ctl.model.spec.security import NetworkPeer, Security
from rayllm_ctl.model.spec.service import LLMService, Model

SERVICE = LLMService("q", Model("m"))
ALL = NetworkPeer(pod_selector={})


def found(**sections: Any) -> list[str]:
    return [str(problem) for problem in validate(replace(SERVICE, **sections))]


def restricted(**peer: Any) -> list[str]:
    return found(security=Security("restricted", "restricted", (NetworkPeer(**peer),)))


def test_complete_sections_are_valid() -> None:
    exposure = Exposure(
        "LoadBalancer", {"a.b/c": "d"}, ("10.0.0.0/8",), Ingress("*.a.b", "nginx", "/v1", "tls", {"x": "off"}),
        Gateway("g", "gateways", "https", ("a.b",), 90.0),
    )  # fmt: skip
    peer = NetworkPeer({"matchLabels": {"a": "b"}}, {})
    security = Security("restricted", "restricted", (peer,), (peer,), (ALL,), "ray")
    monitoring = Monitoring(Monitor({"release": "prometheus"}, 0.5))
    budget = Availability(PodDisruptionBudget(1))
    assert found(exposure=exposure, security=security, monitoring=monitoring, availability=budget) == []


@pytest.mark.parametrize(
    ("exposure", "problem"),
    [
        (Exposure(source_ranges=("10.0.0.0/8",)), "sourceRanges: requires spec.exposure.type: LoadBalancer"),
        (Exposure("LoadBalancer", source_ranges=("10.1.2.3/8",)),
         'sourceRanges[0]: "10.1.2.3/8" is not a valid CIDR, such as 10.0.0.0/8'),
        (Exposure("LoadBalancer", source_ranges=("10.1.2.3",)),
         'sourceRanges[0]: "10.1.2.3" is not a valid CIDR, such as 10.0.0.0/8'),
        (Exposure(annotations={"a b": "c"}), 'annotations.a b: "a b" is not a valid annotation key'),
        (Exposure(annotations={"a": "\0"}),
         "annotations.a: the value contains control characters that Kubernetes rejects"),
        (Exposure(annotations={"a": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}),
         "annotations.a: the value looks like a credential; anyone who can read the object could read it"),
        (Exposure(ingress=Ingress("a.*.b")),
         'ingress.host: "a.*.b" is not a valid host name, such as llm.example.com or *.example.com'),
        (Exposure(ingress=Ingress("a", path="v1")), 'ingress.path: "v1" is not a valid path prefix, such as / or /v1'),
        (Exposure(ingress=Ingress("a", path="/a//b")),
         'ingress.path: "/a//b" is not a valid path prefix, such as / or /v1'),
        (Exposure(ingress=Ingress("a", tls="A")),
         "ingress.tls.secretName: \"A\" is not a valid object name: it must consist of lower-case letters, digits, '-' "
         "and '.'"),
        (Exposure(gateway=Gateway("g", request_timeout=-1.0)),
         "gateway.requestTimeout: must be at least 0 and at most 99999 seconds, not -1"),
        (Exposure(gateway=Gateway("g", request_timeout=0.0005)),
         "gateway.requestTimeout: must be whole seconds, or whole milliseconds below 100 s, not 0.0005"),
        (Exposure(gateway=Gateway("g", hostnames=("a",) * 17)), "gateway.hostnames: must be at most 16, not 17"),
    ],
)  # fmt: skip
def test_exposure(exposure: Exposure, problem: str) -> None:
    assert found(exposure=exposure) == [f"spec.exposure.{problem}"]


@pytest.mark.parametrize(
    ("peer", "problem"),
    [
        ({}, "must have podSelector, namespaceSelector or ipBlock"),
        ({"pod_selector": {}, "ip_block": {"cidr": "10.0.0.0/8"}}, "ipBlock: cannot be combined with podSelector"),
        ({"ip_block": {}}, "ipBlock.cidr: required field is missing, such as 10.0.0.0/8"),
        ({"ip_block": {"cidr": "10.0.0.0/8", "expect": []}},
         "ipBlock.expect: unknown field (supported fields: cidr, except)"),
        ({"ip_block": {"cidr": "10.0.0.0/8", "except": "x"}}, "ipBlock.except: expected a list of CIDRs"),
        ({"ip_block": {"cidr": "10.0.0.0/8", "except": ["x"]}},
         'ipBlock.except[0]: "x" is not a valid CIDR, such as 10.0.0.0/8'),
        ({"pod_selector": {"app": "web"}},
         "podSelector.app: unknown field (supported fields: matchLabels, matchExpressions)"),
        ({"pod_selector": {"matchLabels": ["web"]}}, "podSelector.matchLabels: expected a mapping of labels"),
        ({"pod_selector": {"matchLabels": {"a": 1}}}, 'podSelector.matchLabels.a: "1" is not a valid label value'),
        ({"pod_selector": {"matchExpressions": {}}}, "podSelector.matchExpressions: expected a list"),
        ({"namespace_selector": {"matchExpressions": ["a"]}},
         "namespaceSelector.matchExpressions[0]: expected a mapping with key, operator and values"),
        ({"namespace_selector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}},
         'namespaceSelector.matchExpressions[0].operator: "in" is not supported (supported values: In, NotIn, Exists, '
         "DoesNotExist)"),
        ({"namespace_selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
         "namespaceSelector.matchExpressions[0].values: In requires values"),
        ({"namespace_selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
         "namespaceSelector.matchExpressions[0].values: Exists takes no values"),
    ],
)  # fmt: skip
def test_network_peers(peer: dict[str, Any], problem: str) -> None:
    [line] = restricted(**peer)
    assert line.removeprefix("spec.security.allowFrom[0]").lstrip(".: ") == problem


def test_clients_of_an_open_network_mean_nothing() -> None:
    assert found(security=Security(allow_from=(ALL,))) == [
        "spec.security.allowFrom: requires spec.security.network: restricted"
    ]
    assert found(security=Security(allow_dashboard_from=(ALL,))) == [
        "spec.security.allowDashboardFrom: requires spec.security.network: restricted"
    ]


@pytest.mark.parametrize(
    "exposure", [Exposure("LoadBalancer"), Exposure(ingress=Ingress("a.b")), Exposure(gateway=Gateway("g"))]
)
def test_an_exposed_service_names_who_connects(exposure: Exposure) -> None:
    [line] = found(exposure=exposure, security=Security("restricted", "restricted"))
    assert line.startswith(
        "spec.security.allowFrom: required with spec.exposure: by default only pods of the namespace"
    )
    assert found(exposure=exposure, security=Security("restricted", "restricted", (ALL,))) == []


def test_an_incremental_upgrade_has_a_gateway_of_its_own() -> None:
    steps = Upgrade(INCREMENTAL, 50, 10, 30.0, "istio")
    [line] = found(upgrade=steps, exposure=Exposure(ingress=Ingress("a.b")))
    assert line.startswith("spec.exposure: cannot be combined with spec.upgrade.strategy: NewClusterWith")
    [line] = found(upgrade=steps, security=Security("restricted", "restricted"))
    assert line.startswith("spec.security.allowFrom: required with spec.upgrade.strategy: NewClusterWith")


def test_a_monitored_service_names_prometheus() -> None:
    monitoring = Monitoring(Monitor())
    assert found(monitoring=monitoring, security=Security("restricted", "restricted")) == [
        "spec.security.allowMetricsFrom: required with spec.monitoring: Prometheus could not connect to the metrics "
        "ports"
    ]
    assert found(monitoring=monitoring, security=Security("restricted", "restricted", allow_metrics_from=(ALL,))) == []


@pytest.mark.parametrize(
    ("monitoring", "problem"),
    [
        (Monitoring(Monitor(), Monitor()),
         ": podMonitor and serviceMonitor cannot be combined: every pod would be scraped twice"),
        (Monitoring(Monitor({"a": "b c"})), '.podMonitor.labels.a: "b c" is not a valid label value'),
        (Monitoring(service_monitor=Monitor({"app.kubernetes.io/instance": "b"})),
         ".serviceMonitor.labels.app.kubernetes.io/instance: is reserved: rayllm-ctl sets this label itself"),
        (Monitoring(Monitor(interval=0.0)),
         ".podMonitor.interval: must be at least 0.001 and at most 99999 seconds, not 0"),
    ],
)  # fmt: skip
def test_monitoring(monitoring: Monitoring, problem: str) -> None:
    assert found(monitoring=monitoring) == [f"spec.monitoring{problem}"]


def test_a_budget_of_nothing_is_rejected() -> None:
    assert found(availability=Availability(PodDisruptionBudget(0))) == [
        "spec.availability.podDisruptionBudget.minAvailable: must be at least 1, not 0"
    ]

"""Who reaches which port of a service under its NetworkPolicy, by the rules of the Kubernetes documentation.

Evaluated over the pods that KubeRay and its Helm chart make. e2e/test_network.py shows it with real connections.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from rayllm_ctl.model.spec.operations import Monitor, Monitoring
from rayllm_ctl.model.spec.security import NetworkPeer, Security
from rayllm_ctl.render import render
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

PORTS = {6379, 8000, 8080, 8265, 10001, 10002, 44217, 44227, 52365}
"""Ports of Ray, those that its processes choose among them."""


class Client(NamedTuple):
    """A pod, or with `address` something outside the cluster."""

    labels: Mapping[str, str] = {}
    namespace: str = "llm"
    address: str = ""


def ray_pod(service: str, cluster: str, node_type: str) -> Client:
    """As KubeRay 1.6.2 labels pods (ray-operator/controllers/ray/common/pod.go, labelPod)."""
    labels = {
        "ray.io/is-ray-node": "yes", "ray.io/cluster": cluster, "ray.io/node-type": node_type,
        "app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator",
    }  # fmt: skip
    group = "headGroupSpec" if node_type == "head" else "workerGroupSpecs"
    config = policy_and_service(service, Security())[0]["spec"]["rayClusterConfig"][group]
    template = (config if node_type == "head" else config[0])["template"]
    return Client(labels | template["metadata"]["labels"])


def policy_and_service(name: str, security: Security, **sections: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    service = replace(GPU, name=name, namespace="llm", security=security, **sections)
    objects = render(plan(service, H100))
    policies = [item for item in objects if item["kind"] == "NetworkPolicy"]
    return objects[0], policies[0] if policies else None


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", ()):
        value, values = labels.get(expression["key"]), expression.get("values", ())
        holds = {
            "In": value in values, "NotIn": value not in values, "Exists": value is not None,
            "DoesNotExist": value is None,
        }  # fmt: skip
        if not holds[expression["operator"]]:
            return False
    return True


def admits(peer: Mapping[str, Any], client: Client, namespace: str) -> bool:
    if "ipBlock" in peer:
        address = ipaddress.ip_address(client.address or "10.78.1.7")
        block = peer["ipBlock"]
        excepted = (ipaddress.ip_network(item) for item in block.get("except", ()))
        return address in ipaddress.ip_network(block["cidr"]) and not any(address in item for item in excepted)
    if client.address:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": client.namespace}):
            return False
    elif client.namespace != namespace:
        return False
    return selects(peer.get("podSelector", {}), client.labels)


def reachable(policy: Mapping[str, Any], pod: Client, client: Client) -> set[int]:
    """The ports of `pod` that `client` can connect to under this policy alone."""
    spec, namespace = policy["spec"], policy["metadata"]["namespace"]
    assert spec["policyTypes"] == ["Ingress"]
    if namespace != pod.namespace or not selects(spec["podSelector"], pod.labels):
        return PORTS
    ports: set[int] = set()
    for rule in spec["ingress"]:
        if any(admits(peer, client, namespace) for peer in rule["from"]):
            ports |= {entry["port"] for entry in rule["ports"]} if "ports" in rule else PORTS
    return ports


HEAD = ray_pod("qwen", "qwen-x7k2p", "head")
WORKER = ray_pod("qwen", "qwen-x7k2p", "worker")
NEW_WORKER = ray_pod("qwen", "qwen-b4d6f", "worker")
OTHER_SERVICE = ray_pod("llama", "llama-b4d6f", "worker")
BY_CHART = {"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/component": "kuberay-operator"}
BY_KUSTOMIZATION = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": "kuberay-operator"}
WEB, STRANGER = Client({"app": "web"}), Client({"app": "other"})
ABROAD, OUTSIDE = Client({"app": "web"}, "search"), Client(address="203.0.113.9")


def ports_of(security: Security, client: Client, pod: Client = HEAD, **sections: Any) -> set[int]:
    policy = policy_and_service("qwen", security, **sections)[1]
    assert policy is not None
    return reachable(policy, pod, client)


def test_an_open_network_has_no_policy() -> None:
    assert policy_and_service("qwen", Security())[1] is None


@pytest.mark.parametrize("pod", [HEAD, WORKER, NEW_WORKER])
def test_by_default_the_namespace_reaches_the_api_and_nothing_else(pod: Client) -> None:
    closed = Security("restricted", "restricted")
    assert ports_of(closed, STRANGER, pod) == {8000}
    assert ports_of(closed, OTHER_SERVICE, pod) == {8000}
    assert ports_of(closed, ABROAD, pod) == set()
    assert ports_of(closed, OUTSIDE, pod) == set()


@pytest.mark.parametrize("pod", [HEAD, WORKER, NEW_WORKER])
@pytest.mark.parametrize("client", [HEAD, WORKER, NEW_WORKER])
def test_the_pods_of_a_service_reach_each_other_in_both_clusters_of_an_upgrade(pod: Client, client: Client) -> None:
    web = Security("restricted", "restricted", (NetworkPeer(pod_selector={"matchLabels": {"app": "web"}}),))
    assert ports_of(web, client, pod) == PORTS


@pytest.mark.parametrize("labels", [BY_CHART, BY_KUSTOMIZATION])
def test_the_operator_reaches_the_dashboard_and_the_proxy_from_its_namespace_only(labels: dict[str, str]) -> None:
    closed = Security("restricted", "restricted", (NetworkPeer(pod_selector={"matchLabels": {"app": "web"}}),))
    assert ports_of(closed, Client(labels, "kuberay-system")) == {8265, 8000}
    assert ports_of(closed, Client(labels, "default")) == set()
    assert ports_of(closed, Client({}, "kuberay-system")) == set()
    elsewhere = replace(closed, operator_namespace="ray")
    assert ports_of(elsewhere, Client(labels, "ray")) == {8265, 8000}


def test_named_clients_replace_the_namespace() -> None:
    named = Security(
        "restricted",
        "restricted",
        (
            NetworkPeer({"matchLabels": {"app": "web"}}, {"matchLabels": {"kubernetes.io/metadata.name": "search"}}),
            NetworkPeer(ip_block={"cidr": "203.0.113.0/24", "except": ["203.0.113.64/26"]}),
        ),
    )
    assert ports_of(named, ABROAD) == {8000}
    assert ports_of(named, WEB) == set()
    assert ports_of(named, OUTSIDE) == {8000}
    assert ports_of(named, Client(address="203.0.113.70")) == set()


def test_the_dashboard_is_opened_apart_from_the_api() -> None:
    api_server = NetworkPeer(ip_block={"cidr": "203.0.113.9/32"})
    security = Security("restricted", "restricted", allow_dashboard_from=(api_server,))
    assert ports_of(security, OUTSIDE) == {8265}
    assert ports_of(security, STRANGER) == {8000}


def test_prometheus_reaches_the_metrics_and_nothing_else() -> None:
    everybody = NetworkPeer(namespace_selector={"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}})
    security = Security("restricted", "restricted", allow_metrics_from=(everybody,))
    watched = Monitoring(Monitor())
    assert ports_of(security, Client({}, "monitoring"), monitoring=watched) == {8080, 44217, 44227}
    assert ports_of(security, STRANGER, monitoring=watched) == {8000}


def test_other_services_are_not_concerned() -> None:
    assert ports_of(Security("restricted", "restricted"), STRANGER, OTHER_SERVICE) == PORTS

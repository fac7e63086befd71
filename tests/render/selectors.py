"""Whether rendered objects select the pods and Services that they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]
Labels = Mapping[str, str]

_OWN = "rayllm.io/"
"""What labels begin with by which rayllm-ctl selects; all others are a user's."""


def unmatched(objects: Sequence[Object]) -> list[str]:
    """What selects nothing, or refers to a Service that does not exist, among the objects of one service."""
    pods = [labels for item in objects for labels, _ in _pods(item)]
    services = [item["metadata"].get("labels") or {} for item in objects if item["kind"] == "Service"]
    wrong = []
    for item in objects:
        what = f"{item['kind']}/{item['metadata']['name']}"
        for selector in _pod_selectors(item):
            if _is_own(selector) and not any(_matches(selector, labels) for labels in pods):
                wrong.append(f"{what} selects no pod: {selector}")
        if item["kind"] == "ServiceMonitor":
            selector = item["spec"]["selector"]["matchLabels"]
            if not any(_matches(selector, labels) for labels in services):
                wrong.append(f"{what} selects no Service: {selector}")
        for labels, spec in _pods(item):
            for constraint in spec.get("topologySpreadConstraints") or ():
                selector = (constraint.get("labelSelector") or {}).get("matchLabels") or {}
                if _is_own(selector) and not _matches(selector, labels):
                    wrong.append(f"{what}: a pod does not spread over its own group: {selector}")
        known = {one["metadata"]["name"] for one in objects if one["kind"] == "Service"}
        # KubeRay makes this one.
        known |= {f"{one['metadata']['name']}-serve-svc" for one in objects if one["kind"] == "RayService"}
        wrong += [f"{what} refers to Service {name}, which does not exist" for name in _backends(item) - known]
    return wrong


def _pods(item: Object) -> Iterator[tuple[Labels, Object]]:
    """Labels and spec of the pods that an object runs, with the labels that KubeRay adds."""
    name, spec = item["metadata"]["name"], item.get("spec") or {}
    if item["kind"] == "Deployment":
        yield spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    if item["kind"] not in ("RayService", "RayCluster"):
        return
    config = spec["rayClusterConfig"] if item["kind"] == "RayService" else spec
    groups = [("head", "headgroup", config["headGroupSpec"])]
    groups += [("worker", group["groupName"], group) for group in config["workerGroupSpecs"]]
    for node_type, group_name, group in groups:
        own = group["template"]["metadata"].get("labels") or {}
        added = {"ray.io/cluster": name, "ray.io/node-type": node_type, "ray.io/group": group_name}
        yield {**own, **added}, group["template"]["spec"]


def _pod_selectors(item: Object) -> Iterator[Labels]:
    kind, spec = item["kind"], item.get("spec") or {}
    if kind == "Service":
        yield spec.get("selector") or {}
    elif kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
        yield spec["selector"].get("matchLabels") or {}
    elif kind == "NetworkPolicy":
        yield spec["podSelector"].get("matchLabels") or {}
        for rule in spec.get("ingress") or ():
            for peer in rule.get("from") or ():
                if "namespaceSelector" not in peer:
                    yield (peer.get("podSelector") or {}).get("matchLabels") or {}


def _backends(item: Object) -> set[str]:
    """The Services that an Ingress or an HTTPRoute forwards to."""
    rules = (item.get("spec") or {}).get("rules") or ()
    if item["kind"] == "Ingress":
        return {path["backend"]["service"]["name"] for rule in rules for path in rule["http"]["paths"]}
    if item["kind"] == "HTTPRoute":
        return {backend["name"] for rule in rules for backend in rule["backendRefs"]}
    return set()


def _is_own(selector: Labels) -> bool:
    return any(key.startswith((_OWN, "ray.io/")) for key in selector)


def _matches(selector: Labels, labels: Labels) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())

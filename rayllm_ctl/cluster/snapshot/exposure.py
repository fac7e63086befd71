"""The objects that expose a service outside the cluster: its current Service, Ingress and HTTPRoute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.model.kube.labels import APPLICATION, HTTP_ROUTE, INGRESS, NAME
from rayllm_ctl.model.observed.health import Snapshot
from rayllm_ctl.model.workload import Right, WorkloadKind

Get = Callable[[str, str, str | None], Objects]
"""The object of a kind, name and namespace in a list; empty if there is none or it cannot be read."""

_OURS = f"{NAME}={APPLICATION}"


def collect_exposure(cluster: Cluster, kind: WorkloadKind, workload: Mapping[str, Any]) -> Snapshot:
    """The object of a service with only the objects that expose it."""
    reader = Reader(cluster)
    metadata = workload["metadata"]
    services = reader.get("Service", kind.serve_service(metadata["name"]), metadata["namespace"])
    services += in_front_of(reader.get, workload)
    return Snapshot(
        (workload, *services), datetime.now(UTC), notes=tuple(sorted(reader.notes)), unread=frozenset(reader.unread)
    )


def in_front_of(get: Get, workload: Mapping[str, Any]) -> Objects:
    """Ingress and HTTPRoute of one service, with the IngressClass and the Gateways that they name."""
    namespace = workload["metadata"]["namespace"]
    objects: Objects = []
    if name := _named(workload, INGRESS):
        objects += get("Ingress", name, namespace)
        for item in objects[:1]:
            class_name = (item.get("spec") or {}).get("ingressClassName")
            if class_name and not ((item.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
                objects += get("IngressClass", class_name, None)
    if name := _named(workload, HTTP_ROUTE):
        routes = get("HTTPRoute", name, namespace)
        objects += routes
        for gateway_namespace, gateway in sorted(_gateways(routes)):
            objects += get("Gateway", gateway, gateway_namespace)
    return objects


def list_exposure(reader: Reader, workloads: Sequence[Mapping[str, Any]], namespace: str | None) -> Get:
    """Reads the objects that expose many services with one list per kind that any of them names.

    IngressClasses are read only for a single service.
    """
    objects: Objects = []
    if any(_named(workload, INGRESS) for workload in workloads):
        objects += reader.list("Ingress", namespace, _OURS)
        reader.unread.add("IngressClass")
    if any(_named(workload, HTTP_ROUTE) for workload in workloads):
        routes = reader.list("HTTPRoute", namespace, _OURS)
        places = {where for where, _ in _gateways(routes)}
        objects += routes
        if places:
            objects += reader.list("Gateway", places.pop() if len(places) == 1 else None)
    known = {(item["kind"], item["metadata"]["name"], item["metadata"]["namespace"]): item for item in objects}

    def get(kind_name: str, name: str, place: str | None) -> Objects:
        item = known.get((kind_name, name, place))
        return [item] if item else []

    return get


def exposure_rights(manifests: Iterable[Mapping[str, Any]], namespace: str) -> tuple[Right, ...]:
    """The rights to read what the Ingress and the HTTPRoute among `manifests` name."""
    rights: list[Right] = []
    for manifest in manifests:
        if manifest["kind"] == "Ingress" and manifest["spec"].get("ingressClassName"):
            rights.append(Right("get", "IngressClass"))
        elif manifest["kind"] == "HTTPRoute":
            placed = {**manifest, "metadata": {"namespace": namespace, **manifest["metadata"]}}
            rights += [Right("get", "Gateway", namespace=where) for where, _ in sorted(_gateways([placed]))]
    return tuple(rights)


def _named(workload: Mapping[str, Any], annotation: str) -> str:
    return str((workload["metadata"].get("annotations") or {}).get(annotation) or "")


def _gateways(routes: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Namespace and name of every Gateway that the routes name."""
    return {
        (parent.get("namespace") or route["metadata"]["namespace"], parent["name"])
        for route in routes
        for parent in (route.get("spec") or {}).get("parentRefs") or ()
        if parent.get("kind", "Gateway") == "Gateway"
    }

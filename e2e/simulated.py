"""Namespaces whose pods go to simulated nodes, and pods that hold resources of such nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from e2e.harness import Bench, Object
from e2e.simulate.shapes import SIMULATED

CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
"""What Pod Security "restricted" asks of a container."""


def schedule_on_simulated_nodes(bench: Bench) -> None:
    """Let all pods of the namespace go to simulated nodes."""
    bench.kubectl(
        "annotate", "namespace", bench.namespace,
        f"scheduler.alpha.kubernetes.io/node-selector={SIMULATED}=true",
        'scheduler.alpha.kubernetes.io/defaultTolerations=[{"key":"kwok.x-k8s.io/node","operator":"Exists"}]',
    )  # fmt: skip


def simulated_nodes(bench: Bench) -> list[str]:
    """The names of the simulated nodes."""
    listed = json.loads(bench.kubectl("get", "nodes", "-l", f"{SIMULATED}=true", "-o", "json"))
    return [node["metadata"]["name"] for node in listed["items"]]


def hold_on_each_node(bench: Bench, limits: Mapping[str, str]) -> None:
    """Let pods of somebody else hold resources, the same of each simulated node."""
    _hold(bench, {node: _holder(limits) | {"nodeName": node} for node in simulated_nodes(bench)})


def hold(bench: Bench, *limits: Mapping[str, str]) -> None:
    """Let pods of somebody else hold resources; the scheduler places the pods, in this order."""
    _hold(bench, {f"{number}": _holder(one) for number, one in enumerate(limits)})


def _holder(limits: Mapping[str, str]) -> Object:
    container = {
        "name": "holder", "image": "example.com/holder:1", "resources": {"limits": dict(limits)},
        "securityContext": CONTAINER_SECURITY,
    }  # fmt: skip
    return {"terminationGracePeriodSeconds": 0, "containers": [container]}


def _hold(bench: Bench, specs: Mapping[str, Object]) -> None:
    bench.wait("the default service account", lambda: bench.items("serviceaccounts"), timeout=60)
    names = {f"holder-{name}": spec for name, spec in specs.items()}
    bench.apply(*(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name, spec in names.items()
    ))  # fmt: skip

    def placed() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in bench.items("pods")}
        return all(name in pods and pods[name]["spec"].get("nodeName") for name in names)

    bench.wait("the other pods hold their resources", placed, timeout=60)

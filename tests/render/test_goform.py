"""Manifests are spelled as KubeRay's Go types write them back, so that KubeRay owns nothing of what was applied.

What the operator wrote back was recorded with KubeRay 1.6.2 on Kubernetes 1.36: quantities in canonical form, structs
without `omitempty` although they are empty, and no empty optional field.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from rayllm_ctl.model.kube.quantities import canonical_quantity
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.render import render
from tests.render.drawn import for_planned
from tests.render.plans import main_object


def as_go_writes(manifest: dict[str, Any]) -> dict[str, Any]:
    """`manifest` after a round trip through the Go types of KubeRay 1.6.2."""
    written = copy.deepcopy(manifest)
    if "serveService" in written["spec"]:
        service = written["spec"]["serveService"]
        service.setdefault("metadata", {})
        _drop_empty(service["metadata"])
        _drop_empty(service["spec"])
    written["spec"]["rayClusterConfig"] = as_go_writes_cluster(written["spec"]["rayClusterConfig"])
    return written


def as_go_writes_cluster(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a RayCluster after a round trip through the Go types of KubeRay 1.6.2."""
    cluster = copy.deepcopy(spec)
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        group["template"].setdefault("metadata", {})
        spec = group["template"]["spec"]
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            container.setdefault("resources", {})
            _canonical(container["resources"])
            for variable in container.get("env", []):
                _drop_empty(variable)
            for mount in container.get("volumeMounts", []):
                _drop_empty(mount)
        for entry in (*spec.get("tolerations", []), *(_sources(spec))):
            _drop_empty(entry)
        for field in ("affinity", "nodeSelector", "tolerations", "volumes"):
            if field in spec and not spec[field]:
                del spec[field]
    for group in groups[1:]:
        group.setdefault("scaleStrategy", {})
    if "autoscalerOptions" in cluster:
        _canonical(cluster["autoscalerOptions"]["resources"])
    return cluster


def _sources(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for volume in spec.get("volumes", []):
        yield from (source for key, source in volume.items() if key != "name")


def _canonical(resources: dict[str, Any]) -> None:
    for amounts in resources.values():
        for name, amount in amounts.items():
            amounts[name] = canonical_quantity(str(amount))


def _drop_empty(entry: dict[str, Any]) -> None:
    for key in [key for key, value in entry.items() if value in ("", False, None, {}, [])]:
        del entry[key]


@for_planned
def test_kuberay_changes_nothing_when_it_writes_a_manifest_back(case: tuple[LLMService, Plan]) -> None:
    manifest = main_object(render(case[1]))
    assert as_go_writes(manifest) == manifest

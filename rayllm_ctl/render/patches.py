"""What a spec changes in the rendered objects: pod templates of the head and the workers, and patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.cluster_spec import CLUSTER_FIELDS, cluster_spec, with_cluster_spec
from rayllm_ctl.model.kube.kuberay import RAY_CLUSTER
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.spec.patches import Patch, PatchTarget
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.render.go_form import go_text
from rayllm_ctl.render.json_patch import json_patch
from rayllm_ctl.render.merge import PatchError, strategic_merge

_IDENTITY: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
"""What commands find an object by."""


def patched(manifests: Sequence[dict[str, Any]], patches: Sequence[Patch]) -> list[dict[str, Any]]:
    """`manifests` with `patches` applied in their order.

    Raises UsageError, with the place in the spec, for a patch that matches no object or cannot be applied.
    """
    objects = list(manifests)
    for index, patch in enumerate(patches):
        at: Path = ("spec", "patches", index)
        matching = [place for place, item in enumerate(objects) if _matches(patch.target, item)]
        if not matching:
            raise _failed(_no_match((*at, "target"), patch.target, objects))
        for place in matching:
            objects[place] = _apply(objects[place], patch.patch, (*at, "patch"))
    return objects


def with_pod_templates(manifests: Sequence[dict[str, Any]], pods: Pods) -> list[dict[str, Any]]:
    """`manifests` with the podTemplate of head and workers merged into the pods of the Ray cluster.

    Raises UsageError, with the place in the spec, for one that cannot be merged.
    """
    return [_with_pod_templates(manifest, pods) for manifest in manifests]


def _with_pod_templates(manifest: dict[str, Any], pods: Pods) -> dict[str, Any]:
    if manifest["kind"] != RAY_CLUSTER and manifest["kind"] not in CLUSTER_FIELDS:
        return manifest
    cluster = dict(cluster_spec(manifest))
    if "headGroupSpec" not in cluster:  # a RayJob that runs on a RayCluster of others
        return manifest
    cluster["headGroupSpec"] = _merged(cluster["headGroupSpec"], pods.head, "head")
    cluster["workerGroupSpecs"] = [_merged(group, pods.worker, "worker") for group in cluster["workerGroupSpecs"]]
    return go_text(with_cluster_spec(manifest, cluster))


def _merged(group: Mapping[str, Any], options: PodOptions, role: str) -> dict[str, Any]:
    try:
        return {**group, "template": strategic_merge(group["template"], options.pod_template)}
    except PatchError as error:
        at: Path = ("spec", "pods", role, "podTemplate", *error.problem.path)
        raise _failed(Problem(at, error.problem.message, error.problem.hint)) from None


def _apply(manifest: dict[str, Any], patch: Any, at: Path) -> dict[str, Any]:
    try:
        changed = strategic_merge(manifest, patch) if isinstance(patch, Mapping) else json_patch(manifest, patch)
    except PatchError as error:
        problem = error.problem
        raise _failed(Problem((*at, *problem.path), problem.message, problem.hint)) from None
    for path in _IDENTITY:
        if _value(changed, path) != _value(manifest, path):
            raise _failed(Problem(at, f"{'.'.join(map(str, path))} of {_shown(manifest)} cannot be changed"))
    if not isinstance(_value(changed, ("metadata", "annotations")) or {}, Mapping):
        raise _failed(Problem(at, f"metadata.annotations of {_shown(manifest)} must be an object"))
    return go_text(changed)


def _matches(target: PatchTarget, manifest: Mapping[str, Any]) -> bool:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    found = (manifest["kind"], manifest["metadata"]["name"], group, version)
    wanted = (target.kind, target.name, target.group, target.version)
    return all(want is None or want == value for want, value in zip(wanted, found, strict=True))


def _no_match(at: Path, target: PatchTarget, objects: Sequence[Mapping[str, Any]]) -> Problem:
    close = nearest(target.kind, {item["kind"] for item in objects}) if target.kind else None
    hint = f"did you mean {close}?" if close and close != target.kind else ""
    return Problem(at, f"matches no object (rendered: {', '.join(map(_shown, objects))})", hint)


def _value(manifest: Mapping[str, Any], path: Path) -> Any:
    value: Any = manifest
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _shown(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _failed(problem: Problem) -> UsageError:
    return UsageError(str(problem), hint=problem.hint or ())

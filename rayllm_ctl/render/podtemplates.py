"""spec.pods.*.podTemplate: what users add to the pod templates, as strategic merge patches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.podoptions import Pods
from rayllm_ctl.model.problems import Path, Problem
from rayllm_ctl.render.goform import canonical
from rayllm_ctl.render.merge import PatchError, strategic_merge


def with_pod_templates(manifests: Sequence[dict[str, Any]], pods: Pods) -> list[dict[str, Any]]:
    """`manifests` with the patches of `pods` in the templates of head and workers.

    Raises UsageError, with the place in the spec, for a patch that cannot be applied.
    """
    for manifest in manifests:
        for role, group in _groups(manifest):
            patch = _patch(pods, role)
            if patch:
                group["template"] = canonical(_merged(group["template"], patch, role))
    return list(manifests)


def origin(path: Path, pods: Pods) -> str:
    """The patch that a problem at `path` of an object comes from; empty where there is none."""
    role = "head" if "headGroupSpec" in path else "worker"
    return _place(role) if "template" in path and _patch(pods, role) else ""


def _groups(manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = manifest.get("spec", {})
    cluster = spec.get("rayClusterConfig", spec)
    if "headGroupSpec" in cluster:
        yield "head", cluster["headGroupSpec"]
        yield from (("worker", group) for group in cluster["workerGroupSpecs"])


def _merged(template: Mapping[str, Any], patch: Mapping[str, Any], role: str) -> dict[str, Any]:
    try:
        return strategic_merge(template, patch)
    except PatchError as error:
        found = error.problem
        problem = Problem(("spec", "pods", role, "podTemplate", *found.path), found.message, found.hint)
        raise UsageError(str(problem), hint=found.hint or ()) from None


def _patch(pods: Pods, role: str) -> Mapping[str, Any]:
    return pods.head.pod_template if role == "head" else pods.worker.pod_template


def _place(role: str) -> str:
    return f"spec.pods.{role}.podTemplate"

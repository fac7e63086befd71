"""Checks of what users write as Kubernetes does: raw parts of pods against the schema, and the security of all pods.

A spec is validated long before. These checks need the schema of the kind, or the pods as they are in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.cluster_spec import cluster_path
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.model.spec.pod_security import violations
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.render.schema import part_problems

_POD = (*cluster_path("RayService"), "headGroupSpec", "template", "spec")
"""Where a RayService has the spec of a pod; those of other kinds are no different."""

_CONTAINER = (*_POD, "containers")

_TEMPLATES = ("template", "submitterPodTemplate")
"""Fields that hold the template of a pod."""


def check_raw_parts(pods: Pods, kuberay: str = DEFAULT) -> None:
    """Raise UsageError with every field of a raw part that the API server would reject, by its path in the spec."""
    problems = [
        problem
        for role, options in (("head", pods.head), ("worker", pods.worker))
        for problem in _raw_parts(options, ("spec", "pods", role), kuberay)
    ]
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        raise UsageError("\n".join(map(str, problems)), hint=tuple(hints) or "kubectl explain pod.spec")


def _raw_parts(options: PodOptions, at: Path, kuberay: str) -> Iterator[Problem]:
    parts = (
        ("affinity", options.affinity, (*_POD, "affinity")),
        (
            "topologySpreadConstraints",
            list(options.topology_spread_constraints),
            (*_POD, "topologySpreadConstraints"),
        ),
        ("securityContext", _without_null(options.security_context), (*_POD, "securityContext")),
        (
            "containerSecurityContext",
            _without_null(options.container_security_context),
            (*_CONTAINER, "securityContext"),
        ),
    )
    for name, value, place in parts:
        yield from part_problems(value, place, (*at, name), kuberay)


def _without_null(context: Mapping[str, Any]) -> dict[str, Any]:
    """A security context without the fields that null removes from the defaults."""
    return {name: value for name, value in context.items() if value is not None}


def check_pod_security(manifests: Sequence[Mapping[str, Any]], level: PodSecurity) -> None:
    """Raise UsageError with everything in the pods of `manifests` that violates `level`, patches included."""
    found = [
        (f"{manifest['kind']}.{path}.{_text(violation.path)}", violation)
        for manifest in manifests
        for path, spec in _pod_specs(manifest, "")
        for violation in violations(spec, level)
    ]
    if found:
        raise UsageError(
            "\n".join(f"{where}: violates Pod Security {level}: {violation.reason}" for where, violation in found),
            hint=tuple(dict.fromkeys(f"spec.security.podSecurity: {violation.permitted_by}" for _, violation in found)),
        )


def _pod_specs(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The spec of every pod template in an object."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in _TEMPLATES and isinstance(part, Mapping) and isinstance(part.get("spec"), Mapping):
                yield f"{path}.{name}.spec".lstrip("."), part["spec"]
            else:
                yield from _pod_specs(part, f"{path}.{name}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _pod_specs(part, f"{path}[{index}]")


def _text(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")

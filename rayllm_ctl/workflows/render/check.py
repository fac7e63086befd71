"""Check manifests against the schemas of their kinds and the rules of their controllers, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.kinds import RAY_CLUSTER, RAY_SERVICE
from rayllm_ctl.kinds.rules import rule_problems
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT, VERSIONS
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.render import render
from rayllm_ctl.render.podparts import check_raw_parts
from rayllm_ctl.render.schema import UNKNOWN_FIELD, schema_problems

_CLUSTERS: tuple[Path, ...] = (RAY_SERVICE.cluster_path, RAY_CLUSTER.cluster_path)
"""The path to the spec of a RayCluster in a RayService, and in a RayCluster."""

_FIELDS: tuple[tuple[Path, tuple[str, ...]], ...] = (
    (("authOptions",), ("spec", "ray", "authentication")),
    (("gcsFaultToleranceOptions",), ("spec", "ray", "faultTolerance")),
    (("autoscalerOptions", "idleTimeoutSeconds"), ("spec", "ray", "idleTimeout")),
    (("upgradeStrategy",), ("spec", "upgrade")),
    (("serveService", "spec", "ports"), ("spec", "serve", "proxyLocation")),
    (("rayClusterDeletionDelaySeconds",), ("spec", "upgrade", "deletionDelay")),
)
"""The spec-file field behind a field of a RayService or of a RayCluster's spec."""

_Found = dict[str, Problem]
"""Problems by their text, which names the object and the field."""


def check_manifests(manifests: Sequence[Mapping[str, Any]], plan: Plan, kuberay: str = DEFAULT) -> None:
    """Raise UserError with every field that a cluster with this version of KubeRay would reject.

    manifests: those that `plan` renders to. kuberay: one of model.kube.kuberay_versions.VERSIONS. A problem is reported
    with
    the patch or the field of the spec that causes it; any other is a bug of the templates.
    """
    if plan.deployment is not None:
        check_raw_parts(plan.deployment.pod_options, kuberay)
    problems = _problems(manifests, kuberay)
    if problems:
        _report(problems, manifests, plan, kuberay)


def check_objects(manifests: Sequence[Mapping[str, Any]], kuberay: str = DEFAULT) -> None:
    """As `check`, for manifests without a plan."""
    problems = _problems(manifests, kuberay)
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems.values() if problem.hint)
        raise UserError("\n".join(problems), hint=tuple(hints))


def _problems(manifests: Sequence[Mapping[str, Any]], kuberay: str) -> _Found:
    found: _Found = {}
    for manifest in manifests:
        name = f"{manifest['kind']} {manifest['metadata'].get('name', '')}"
        # The rules rely on the types that the schema checks.
        problems = schema_problems(manifest, kuberay) or rule_problems(manifest, kuberay)
        found |= {f"{name}: {problem}": problem for problem in problems}
    return found


def _report(problems: _Found, manifests: Sequence[Mapping[str, Any]], plan: Plan, kuberay: str) -> NoReturn:
    causes = _causes(problems, plan, kuberay)
    elsewhere = {version: _problems(manifests, version) for version in VERSIONS if version != kuberay}
    lines: list[str] = []
    hints: dict[str, None] = {}
    unexplained = False
    for text, problem in problems.items():
        cause = causes.get(text) or _field(problem.path)
        unexplained = unexplained or not cause
        supported = [version for version, others in elsewhere.items() if text not in others]
        if problem.message == UNKNOWN_FIELD and supported:
            text += f" in KubeRay {kuberay}; supported by {', '.join(supported)}"
        elif problem.hint:
            hints[problem.hint] = None
        lines.append(f"{cause}: {text}" if cause else text)
    if unexplained:
        report = "unless the spec asks for this, it is a bug in rayllm-ctl; please report it with the spec file"
        raise UserError("\n".join(lines), hint=(*hints, report))
    raise UsageError("\n".join(lines), hint=tuple(hints))


def _causes(problems: _Found, plan: Plan, kuberay: str) -> dict[str, str]:
    """The spec field that causes each problem, among those applied to the rendered objects (patches)."""
    causes: dict[str, str] = {}
    for field, without in _stages(plan):
        known = _problems(render(without), kuberay)
        causes |= {text: field for text in problems if text not in known}
    return causes


def _stages(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Each change of objects by its field, in order, with the plan without it and all later changes."""
    deployment = plan.deployment
    if deployment is None:
        return
    pods = deployment.pod_options
    no_worker = replace(pods, worker=replace(pods.worker, pod_template={}))
    neither = replace(no_worker, head=replace(pods.head, pod_template={}))
    if pods.head.pod_template:
        yield "spec.pods.head.podTemplate", _with(plan, pod_options=neither, patches=())
    if pods.worker.pod_template:
        yield "spec.pods.worker.podTemplate", _with(plan, pod_options=no_worker, patches=())
    for index in range(len(deployment.patches)):
        yield f"spec.patches[{index}]", _with(plan, patches=deployment.patches[:index])


def _with(plan: Plan, **changes: Any) -> Plan:
    assert plan.deployment is not None
    return replace(plan, deployment=replace(plan.deployment, **changes))


def _field(path: Path) -> str:
    """The field of the spec file that a field of an object comes from; empty if it is not known."""
    for start in (*_CLUSTERS, ()):
        for place, origin in _FIELDS:
            whole = (*start, *place)
            if path[: len(whole)] == whole:
                return ".".join(origin)
    return ""

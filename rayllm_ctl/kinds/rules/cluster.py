"""The spec of a RayCluster, which RayServices and RayJobs contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.kinds.rules.fields import at_least, items, label_problems, section
from rayllm_ctl.kinds.rules.recovery import recovery_problems
from rayllm_ctl.model.kube.releases import TOKEN_RAY, release
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")
"""Parameters of `ray start` for a node's resources, like the field `resources` of its group."""

_V2_VARIABLE = "RAY_enable_autoscaler_v2"
_KUBERNETES_TOKEN_RAY, _PRIORITY_RAY = (2, 55), (2, 56)
"""The first Ray releases with Kubernetes' tokens, and priorities of worker groups."""


def cluster_problems(spec: Mapping[str, Any], annotations: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Problems of `spec`; `annotations`: of the whole object; `at`: the path to the spec."""
    yield from _group(section(spec, "headGroupSpec"), (*at, "headGroupSpec"))
    names: set[str] = set()
    for index, group in enumerate(items(spec, "workerGroupSpecs")):
        path = (*at, "workerGroupSpecs", index)
        name = str(group.get("groupName", ""))
        if name in names:
            yield Problem((*path, "groupName"), f"duplicate worker group name {quoted(name)}")
        names.add(name)
        yield from _group(group, path)
        yield from _bounds(group, path)
        yield from _scaling(group, spec, path)
    yield from _autoscaler(spec, at)
    yield from recovery_problems(spec, annotations, at)
    yield from _authentication(spec, at)


def _group(group: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Checks for both head and workers."""
    if not items(group, "template", "spec", "containers"):
        yield Problem((*at, "template", "spec", "containers"), "requires at least one container")
    parameters = section(group, "rayStartParams")
    given = [name for name in _RESOURCES if parameters.get(name)]
    if given and section(group, "resources"):
        yield Problem((*at, "resources"), f"cannot be combined with {', '.join(given)} in rayStartParams")
    if "labels" in parameters:
        yield Problem((*at, "rayStartParams", "labels"), "is not supported", "use the field labels of the group")
    yield from label_problems(section(group, "labels"), (*at, "labels"))


def _bounds(group: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    least, most = group.get("minReplicas"), group.get("maxReplicas")
    yield from at_least(least, 0, (*at, "minReplicas"))
    yield from at_least(most, 0, (*at, "maxReplicas"))
    if isinstance(least, int) and isinstance(most, int) and least > most >= 0:
        yield Problem((*at, "minReplicas"), f"{least} is greater than maxReplicas ({most})")


def _scaling(group: Mapping[str, Any], spec: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Fields of a worker group that Ray's autoscaler reads."""
    yield from at_least(group.get("idleTimeoutSeconds"), 0, (*at, "idleTimeoutSeconds"))
    if group.get("idleTimeoutSeconds") is not None and not _v2_runs(spec):
        yield Problem((*at, "idleTimeoutSeconds"), "requires version v2 in autoscalerOptions")
    if group.get("priority"):
        yield from _ray(spec, _PRIORITY_RAY, (*at, "priority"))
        if not _v2_runs(spec):
            yield Problem((*at, "priority"), "requires version v2 in autoscalerOptions")
    if group.get("suspend") and spec.get("enableInTreeAutoscaling"):
        yield Problem((*at, "suspend"), "is not supported with autoscaling (enableInTreeAutoscaling)")


def _autoscaler(spec: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    options, path = section(spec, "autoscalerOptions"), (*at, "autoscalerOptions")
    yield from at_least(options.get("idleTimeoutSeconds"), 0, (*path, "idleTimeoutSeconds"))
    variables = _head_variables(spec)
    if not spec.get("enableInTreeAutoscaling"):
        if variables.get(_V2_VARIABLE) in ("1", "true"):
            yield Problem(_head_env(at), f"{_V2_VARIABLE} requires enableInTreeAutoscaling: true")
        return
    if options.get("version") and _V2_VARIABLE in variables:
        yield Problem(_head_env(at), f"{_V2_VARIABLE} cannot be combined with version in autoscalerOptions")
    if options.get("version") != "v2":
        return
    groups: list[tuple[Path, Mapping[str, Any]]] = [(("headGroupSpec",), section(spec, "headGroupSpec"))]
    groups += [(("workerGroupSpecs", index), group) for index, group in enumerate(items(spec, "workerGroupSpecs"))]
    for way, group in groups:
        policy = section(group, "template", "spec").get("restartPolicy", "Never")
        if policy != "Never":
            place = (*at, *way, "template", "spec", "restartPolicy")
            yield Problem(place, f"{policy} is not supported by autoscaler v2", "remove it: Never is the default")


def _authentication(spec: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    options, path = section(spec, "authOptions"), (*at, "authOptions")
    kubernetes = bool(options.get("enableK8sTokenAuth"))
    if options.get("mode") == "token":
        yield from _ray(spec, _KUBERNETES_TOKEN_RAY if kubernetes else TOKEN_RAY, (*path, "mode"))
        if kubernetes and options.get("secretName"):
            yield Problem((*path, "secretName"), "cannot be combined with enableK8sTokenAuth")
    elif kubernetes:
        yield Problem((*path, "enableK8sTokenAuth"), "requires mode: token")


def _ray(spec: Mapping[str, Any], least: tuple[int, int], at: Path) -> Iterator[Problem]:
    """Check that `rayVersion` supports the field at `at`."""
    version = str(spec.get("rayVersion", ""))
    found = release(version)
    if found is None or found < least:
        needed = f"requires rayVersion {least[0]}.{least[1]}.0 or newer"
        yield Problem(at, f"{needed}, not {quoted(version)}" if version else f"{needed}, which is not set")


def _v2_runs(spec: Mapping[str, Any]) -> bool:
    version = section(spec, "autoscalerOptions").get("version")
    return version == "v2" or _head_variables(spec).get(_V2_VARIABLE) in ("1", "true")


def _head_variables(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The environment of the head's Ray container, which is the first: names and literal values."""
    containers = items(spec, "headGroupSpec", "template", "spec", "containers")
    return {str(entry.get("name")): entry.get("value") for entry in items(containers[0], "env")} if containers else {}


def _head_env(at: Path) -> Path:
    """The path to that environment."""
    return (*at, "headGroupSpec", "template", "spec", "containers", 0, "env")

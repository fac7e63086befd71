"""Whole objects: RayService, RayCluster, RayJob, and the names and labels of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.kinds.rules.cluster import cluster_problems
from rayllm_ctl.kinds.rules.fields import at_least, items, label_problems, name_problem, section
from rayllm_ctl.model.kube.kuberay import INITIALIZING_TIMEOUT
from rayllm_ctl.model.kube.kuberay_versions import parse_version
from rayllm_ctl.model.kube.quantities import parse_duration
from rayllm_ctl.model.spec.ray_options import INCREMENTAL
from rayllm_ctl.model.text.patterns import DNS_SUBDOMAIN
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_LONGEST_CLUSTER = 53
_LONGEST_OWNER = 47
"""KubeRay appends six characters for the RayCluster of a RayService or RayJob."""

_LONGEST_SERVICE = 63
_STRATEGIES = ("NewCluster", INCREMENTAL, "None")
_METADATA: Path = ("metadata", "name")
_CLUSTER: Path = ("spec", "rayClusterConfig")


def rayservice_problems(manifest: Mapping[str, Any], kuberay: str) -> Iterator[Problem]:
    """Problems of a RayService. kuberay: one of model.kube.kuberay_versions.VERSIONS."""
    yield from name_problem(str(section(manifest, "metadata").get("name", "")), _LONGEST_OWNER, _METADATA)
    annotations = section(manifest, "metadata", "annotations")
    yield from _initializing_timeout(annotations.get(INITIALIZING_TIMEOUT))
    spec = section(manifest, "spec")
    cluster = section(spec, "rayClusterConfig")
    yield from cluster_problems(cluster, annotations, _CLUSTER)
    if section(cluster, "authOptions").get("enableK8sTokenAuth"):
        yield Problem((*_CLUSTER, "authOptions", "enableK8sTokenAuth"), "is not supported for a RayService")
    if section(cluster, "headGroupSpec", "headService", "metadata").get("name"):
        yield Problem((*_CLUSTER, "headGroupSpec", "headService", "metadata", "name"), "cannot be set")
    yield from _serve_port(cluster)
    if parse_version(kuberay) < (1, 6):
        yield from _serve_service(spec)
    yield from _upgrade(spec, kuberay)


def _serve_service(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Fields that KubeRay replaces before 1.6 (ray-operator/controllers/ray/common/service.go, BuildServeService)."""
    if section(spec, "serveService", "spec").get("ports"):
        yield Problem(
            ("spec", "serveService", "spec", "ports"),
            "KubeRay replaces them by the head's before 1.6: requests would go to workers without a proxy",
            "proxy_location: EveryNode",
        )


def raycluster_problems(manifest: Mapping[str, Any], _kuberay: str) -> Iterator[Problem]:
    """Problems of a RayCluster that a user applies."""
    yield from name_problem(str(section(manifest, "metadata").get("name", "")), _LONGEST_CLUSTER, _METADATA)
    spec = section(manifest, "spec")
    yield from cluster_problems(spec, section(manifest, "metadata", "annotations"), ("spec",))


def rayjob_problems(manifest: Mapping[str, Any], _kuberay: str) -> Iterator[Problem]:
    """Problems of a RayJob: its own fields as far as no deletion strategy is used, and its cluster."""
    yield from name_problem(str(section(manifest, "metadata").get("name", "")), _LONGEST_OWNER, _METADATA)
    spec = section(manifest, "spec")
    cluster, selector = section(spec, "rayClusterSpec"), section(spec, "clusterSelector")
    if cluster:
        yield from cluster_problems(cluster, section(manifest, "metadata", "annotations"), ("spec", "rayClusterSpec"))
    elif not selector:
        yield Problem(("spec", "rayClusterSpec"), "required without clusterSelector")
    if not spec.get("shutdownAfterJobFinishes"):
        for name in ("suspend", "ttlSecondsAfterFinished"):
            if spec.get(name):
                yield Problem(("spec", name), "requires shutdownAfterJobFinishes: true")
    for name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        yield from at_least(spec.get(name), 1, ("spec", name))
    for name in ("backoffLimit", "ttlSecondsAfterFinished"):
        yield from at_least(spec.get(name), 0, ("spec", name))
    if spec.get("backoffLimit") and (selector or spec.get("submissionMode") == "InteractiveMode"):
        yield Problem(("spec", "backoffLimit"), "is not supported with clusterSelector and in InteractiveMode")


def object_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Names and labels that the API server rejects in any object."""
    metadata = section(manifest, "metadata")
    name = str(metadata.get("name", ""))
    if manifest["kind"] == "Service":
        yield from name_problem(name, _LONGEST_SERVICE, _METADATA)
    elif len(name) > 253 or not DNS_SUBDOMAIN.fullmatch(name):
        yield Problem(_METADATA, f"{quoted(name)} is not a valid DNS-1123 subdomain")
    yield from label_problems(section(metadata, "labels"), ("metadata", "labels"))


def _initializing_timeout(text: Any) -> Iterator[Problem]:
    if not text:
        return
    try:
        seconds = float(text) if str(text).isdigit() else parse_duration(str(text))
    except ValueError:
        seconds = 0
    if seconds <= 0:
        place = ("metadata", "annotations", INITIALIZING_TIMEOUT)
        yield Problem(place, f"{quoted(str(text))} is not a valid duration, such as 30m, or a number of seconds")


def _serve_port(cluster: Mapping[str, Any]) -> Iterator[Problem]:
    """The operator silently does not create a serve Service for a head that lists ports without Serve's."""
    containers = items(cluster, "headGroupSpec", "template", "spec", "containers")
    ports = items(containers[0], "ports") if containers else ()
    if ports and not any(port.get("name") == "serve" for port in ports):
        place = (*_CLUSTER, "headGroupSpec", "template", "spec", "containers", 0, "ports")
        yield Problem(place, "requires a port named serve: KubeRay does not create a Service for Ray Serve without it")


def _upgrade(spec: Mapping[str, Any], kuberay: str) -> Iterator[Problem]:
    strategy = section(spec, "upgradeStrategy")
    kind = strategy.get("type")
    if kind not in (None, *_STRATEGIES):
        supported = f"(supported values: {', '.join(_STRATEGIES)})"
        yield Problem(("spec", "upgradeStrategy", "type"), f"{quoted(str(kind))} is not supported {supported}")
    if kind != INCREMENTAL:
        return
    at: Path = ("spec", "upgradeStrategy", "clusterUpgradeOptions")
    if not section(spec, "rayClusterConfig").get("enableInTreeAutoscaling"):
        yield Problem(("spec", "upgradeStrategy", "type"), f"{INCREMENTAL} requires enableInTreeAutoscaling: true")
    options = section(strategy, "clusterUpgradeOptions")
    for name in ("stepSizePercent", "intervalSeconds", "gatewayClassName"):
        if options.get(name) in (None, ""):
            yield Problem((*at, name), f"required by {INCREMENTAL}")
    surge, step = options.get("maxSurgePercent", 100), options.get("stepSizePercent")
    for name, percent in (("maxSurgePercent", surge), ("stepSizePercent", step)):
        if isinstance(percent, int) and not 0 <= percent <= 100:
            yield Problem((*at, name), f"must be between 0 and 100, not {percent}")
    yield from at_least(options.get("intervalSeconds"), 1, (*at, "intervalSeconds"))
    if parse_version(kuberay) >= (1, 7) and isinstance(surge, int) and isinstance(step, int) and step > surge:
        yield Problem((*at, "stepSizePercent"), f"{step} is greater than maxSurgePercent ({surge})")

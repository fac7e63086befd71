"""What KubeRay's operator rejects although the schema allows it: one case for each sentence of its validation.go."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rayllm_ctl.kinds.rules import rule_problems
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import schema_problems
from tests.render.drawn import for_planned
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

[SERVICE] = render(plan(GPU, H100, tensor=4))
CLUSTER = "spec.rayClusterConfig"
HEAD = f"{CLUSTER}.headGroupSpec"
GROUP = f"{CLUSTER}.workerGroupSpecs.0"
INCREMENTAL = {
    "type": "NewClusterWithIncrementalUpgrade",
    "clusterUpgradeOptions": {
        "maxSurgePercent": 50, "stepSizePercent": 10, "intervalSeconds": 5, "gatewayClassName": "istio",
    },
}  # fmt: skip


def changed(*changes: tuple[str, Any], base: dict[str, Any] = SERVICE) -> dict[str, Any]:
    """A manifest with other values at dotted paths (`|` where a name has dots); None removes."""
    manifest: dict[str, Any] = copy.deepcopy(base)
    for path, value in changes:
        *way, last = path.split("|" if "|" in path else ".")
        parent: Any = manifest
        for part in way:
            parent = parent[int(part)] if isinstance(parent, list) else parent.setdefault(part, {})
        if value is None:
            parent.pop(last, None)
        elif isinstance(parent, list):
            parent.append(value)
        else:
            parent[last] = copy.deepcopy(value)
    return manifest


def problems(manifest: dict[str, Any], kuberay: str = "1.7") -> list[str]:
    assert schema_problems(manifest, kuberay) == []
    return [str(problem) for problem in rule_problems(manifest, kuberay)]


def env(*pairs: tuple[str, str]) -> tuple[str, Any]:
    return f"{HEAD}.template.spec.containers.0.env", [{"name": name, "value": value} for name, value in pairs]


@for_planned
def test_what_is_rendered_is_accepted(case: Any) -> None:
    manifest = render(case[1])[0]
    assert problems(manifest) == []


REDIS = (f"{CLUSTER}.gcsFaultToleranceOptions", {"redisAddress": "redis:6379"})
AT_ENV = f"{HEAD}.template.spec.containers[0].env"

CASES: list[tuple[list[tuple[str, Any]], str]] = [
    ([("metadata.name", "a" * 48)], "metadata.name: must be no more than 47 characters, not 48"),
    ([("metadata.name", "1a")], 'metadata.name: "1a" is not a valid DNS-1035 label (lower-case letters, digits and'),
    ([("metadata.labels", {"a b": "x"})], "metadata.labels.a b: not a valid label key"),
    ([("metadata.labels", {"a": "x y"})], 'metadata.labels.a: "x y" is not a valid label value'),
    (
        [("metadata|annotations|ray.io/initializing-timeout", "soon")],
        'metadata.annotations.ray.io/initializing-timeout: "soon" is not a valid duration',
    ),
    ([(f"{HEAD}.template.spec.containers", [])], f"{HEAD}.template.spec.containers: requires at least one container"),
    (
        [(f"{HEAD}.resources", {"CPU": "1"})],
        f"{HEAD}.resources: cannot be combined with num-cpus, num-gpus in rayStartParams",
    ),
    ([(f"{GROUP}.rayStartParams", {"labels": "a=b"})], f"{GROUP}.rayStartParams.labels: is not supported"),
    ([(f"{GROUP}.labels", {"a": "b c"})], f'{GROUP}.labels.a: "b c" is not a valid label value'),
    ([(f"{GROUP}.minReplicas", -1)], f"{GROUP}.minReplicas: must be at least 0, not -1"),
    (
        [(f"{GROUP}.minReplicas", 3), (f"{GROUP}.maxReplicas", 2)],
        f"{GROUP}.minReplicas: 3 is greater than maxReplicas (2)",
    ),
    (
        [(f"{CLUSTER}.workerGroupSpecs.1", SERVICE["spec"]["rayClusterConfig"]["workerGroupSpecs"][0])],
        f'{CLUSTER}.workerGroupSpecs.1.groupName: duplicate worker group name "gpu"',
    ),
    ([(f"{GROUP}.idleTimeoutSeconds", -1)], f"{GROUP}.idleTimeoutSeconds: must be at least 0, not -1"),
    (
        [(f"{GROUP}.idleTimeoutSeconds", 9), (f"{CLUSTER}.autoscalerOptions.version", "v1")],
        f"{GROUP}.idleTimeoutSeconds: requires version v2 in autoscalerOptions",
    ),
    (
        [(f"{GROUP}.priority", 1), (f"{CLUSTER}.rayVersion", "2.55.1")],
        f'{GROUP}.priority: requires rayVersion 2.56.0 or newer, not "2.55.1"',
    ),
    (
        [(f"{GROUP}.suspend", True)],
        f"{GROUP}.suspend: is not supported with autoscaling (enableInTreeAutoscaling)",
    ),
    (
        [(f"{CLUSTER}.autoscalerOptions.idleTimeoutSeconds", -1)],
        f"{CLUSTER}.autoscalerOptions.idleTimeoutSeconds: must be at least 0, not -1",
    ),
    (
        [env(("RAY_enable_autoscaler_v2", "1"))],
        f"{AT_ENV}: RAY_enable_autoscaler_v2 cannot be combined with version in autoscalerOptions",
    ),
    (
        [env(("RAY_enable_autoscaler_v2", "1")), (f"{CLUSTER}.enableInTreeAutoscaling", False)],
        f"{AT_ENV}: RAY_enable_autoscaler_v2 requires enableInTreeAutoscaling: true",
    ),
    (
        [(f"{GROUP}.template.spec.restartPolicy", "Always")],
        f"{GROUP}.template.spec.restartPolicy: Always is not supported by autoscaler v2",
    ),
    (
        [env(("RAY_REDIS_ADDRESS", "redis:6379"))],
        f"{AT_ENV}[0]: RAY_REDIS_ADDRESS requires gcsFaultToleranceOptions",
    ),
    ([env(("REDIS_USERNAME", "x"))], f"{AT_ENV}[0]: REDIS_USERNAME cannot be set here"),
    ([REDIS, env(("A", "1"), ("REDIS_PASSWORD", "x"))], f"{AT_ENV}[1]: REDIS_PASSWORD cannot be set here"),
    ([REDIS, env(("RAY_REDIS_ADDRESS", "x"))], f"{AT_ENV}[0]: RAY_REDIS_ADDRESS cannot be set here"),
    (
        [REDIS, (f"{HEAD}.rayStartParams.redis-password", "x")],
        f"{HEAD}.rayStartParams.redis-password: cannot be set here",
    ),
    (
        [(f"{HEAD}.rayStartParams.redis-username", "x")],
        f"{HEAD}.rayStartParams.redis-username: cannot be set here",
    ),
    (
        [REDIS, ("metadata|annotations|ray.io/ft-enabled", "true")],
        "metadata.annotations.ray.io/ft-enabled: cannot be combined with gcsFaultToleranceOptions",
    ),
    (
        [REDIS, ("metadata|annotations|ray.io/external-storage-namespace", "x")],
        "metadata.annotations.ray.io/external-storage-namespace: cannot be combined with gcsFaultToleranceOptions",
    ),
    (
        [(f"{CLUSTER}.gcsFaultToleranceOptions", {"backend": "rocksdb", "redisAddress": "x"})],
        f"{CLUSTER}.gcsFaultToleranceOptions.redisAddress: does not apply to the backend rocksdb",
    ),
    (
        [(f"{CLUSTER}.gcsFaultToleranceOptions", {"redisAddress": "x", "storage": {"claimName": "x"}})],
        f"{CLUSTER}.gcsFaultToleranceOptions.storage: applies to the backend rocksdb alone",
    ),
    (
        [
            (f"{CLUSTER}.gcsFaultToleranceOptions", {"backend": "rocksdb"}),
            (f"{CLUSTER}.gcsFaultToleranceOptions.storage", {"claimName": "x", "size": "1Gi"}),
        ],
        f"{CLUSTER}.gcsFaultToleranceOptions.storage.size: cannot be combined with claimName",
    ),
    (
        [(f"{CLUSTER}.authOptions", {"mode": "token"}), (f"{CLUSTER}.rayVersion", "2.51.0")],
        f'{CLUSTER}.authOptions.mode: requires rayVersion 2.52.0 or newer, not "2.51.0"',
    ),
    (
        [(f"{CLUSTER}.authOptions", {"mode": "token"}), (f"{CLUSTER}.rayVersion", None)],
        f"{CLUSTER}.authOptions.mode: requires rayVersion 2.52.0 or newer, which is not set",
    ),
    (
        [(f"{HEAD}.headService", {"metadata": {"name": "x"}})],
        f"{HEAD}.headService.metadata.name: cannot be set",
    ),
    (
        [(f"{HEAD}.template.spec.containers.0.ports", [{"name": "http", "containerPort": 8000}])],
        f"{HEAD}.template.spec.containers[0].ports: requires a port named serve",
    ),
    (
        [("spec.upgradeStrategy", {"type": "Rolling"})],
        'spec.upgradeStrategy.type: "Rolling" is not supported (supported values: NewCluster, NewClusterWith',
    ),
    (
        [("spec.upgradeStrategy", INCREMENTAL), (f"{CLUSTER}.enableInTreeAutoscaling", False)],
        "spec.upgradeStrategy.type: NewClusterWithIncrementalUpgrade requires enableInTreeAutoscaling: true",
    ),
    (
        [
            ("spec.upgradeStrategy", INCREMENTAL),
            ("spec.upgradeStrategy.clusterUpgradeOptions.maxSurgePercent", 101),
        ],
        "spec.upgradeStrategy.clusterUpgradeOptions.maxSurgePercent: must be between 0 and 100, not 101",
    ),
    (
        [
            ("spec.upgradeStrategy", INCREMENTAL),
            ("spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent", 51),
        ],
        "spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent: 51 is greater than maxSurgePercent (50)",
    ),
    (
        [
            ("spec.upgradeStrategy", INCREMENTAL),
            ("spec.upgradeStrategy.clusterUpgradeOptions.intervalSeconds", 0),
        ],
        "spec.upgradeStrategy.clusterUpgradeOptions.intervalSeconds: must be at least 1, not 0",
    ),
    (
        [
            ("spec.upgradeStrategy", INCREMENTAL),
            ("spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName", ""),
        ],
        "spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName: required by NewClusterWithIncrementalUpgrade",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), CASES, ids=[expected[-60:] for _, expected in CASES])
def test_a_rayservice_that_the_operator_rejects(changes: list[tuple[str, Any]], expected: str) -> None:
    [problem] = problems(changed(*changes))
    for index in "01":
        expected = expected.replace(f"workerGroupSpecs.{index}", f"workerGroupSpecs[{index}]")
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    "changes",
    [
        [REDIS],
        [("spec.upgradeStrategy", INCREMENTAL)],
        [(f"{CLUSTER}.authOptions", {"mode": "token"})],
        [("metadata|annotations|ray.io/initializing-timeout", "30m")],
        [env(("RAY_REDIS_ADDRESS", "x")), ("metadata|annotations|ray.io/ft-enabled", "TRUE")],
        [(f"{GROUP}.idleTimeoutSeconds", 9)],
        [(f"{GROUP}.rayStartParams", {}), (f"{GROUP}.resources", {"CPU": "1"})],
    ],
)
def test_a_rayservice_that_the_operator_accepts(changes: list[tuple[str, Any]]) -> None:
    assert problems(changed(*changes)) == []


def test_a_step_above_the_surge_is_rejected_since_kuberay_1_7() -> None:
    options = ("spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent", 60)
    manifest = changed(("spec.upgradeStrategy", INCREMENTAL), options)
    assert problems(manifest, "1.6") == []
    assert len(problems(manifest, "1.7")) == 1


def test_ports_of_the_serve_service_are_kept_since_kuberay_1_6() -> None:
    manifest = changed(("spec.serveService.spec.ports", [{"name": "serve", "port": 8000, "targetPort": "serve"}]))
    assert problems(manifest, "1.6") == []
    [problem] = problems(manifest, "1.5")
    assert problem.startswith("spec.serveService.spec.ports: KubeRay replaces them by the head's before 1.6")


def test_a_raycluster_and_a_rayjob() -> None:
    spec = SERVICE["spec"]["rayClusterConfig"]
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a" * 53}, "spec": spec}
    assert problems(cluster) == []
    assert problems(changed(("metadata.name", "a" * 54), base=cluster)) == [
        "metadata.name: must be no more than 53 characters, not 54"
    ]
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"}, "spec": {"rayClusterSpec": spec}}
    assert problems(job) == []
    assert problems(
        changed(("metadata.name", "a" * 48), ("spec.suspend", True), ("spec.backoffLimit", -1), base=job)
    ) == [
        "metadata.name: must be no more than 47 characters, not 48",
        "spec.suspend: requires shutdownAfterJobFinishes: true",
        "spec.backoffLimit: must be at least 0, not -1",
    ]
    assert problems(changed(("spec.rayClusterSpec", None), base=job)) == [
        "spec.rayClusterSpec: required without clusterSelector"
    ]


@pytest.mark.parametrize(
    ("kind", "name", "accepted"),
    [
        ("Service", "a" * 63, True),
        ("Service", "a" * 64, False),
        ("Service", "1a", False),
        ("ConfigMap", "1.a", True),
        ("ConfigMap", "a" * 254, False),
        ("ConfigMap", "A", False),
    ],
)
def test_names_of_other_objects(kind: str, name: str, accepted: bool) -> None:
    assert (problems({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}) == []) == accepted

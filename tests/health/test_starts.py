"""What the container runtime, the kubelet and a node autoscaler say, in their several ways."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from rayllm_ctl.health import diagnose
from rayllm_ctl.model.observed.health import Cause, Snapshot
from tests.health.cases import NAME, NAMESPACE, SAMPLES, load_case

NOT = "pod didn't trigger scale-up"
FAILED = "Node scale up in zones europe-west4-a associated with this pod failed"


def first(case: Snapshot) -> Cause:
    return diagnose(case, NAME, NAMESPACE).causes[0]


def with_event(sample: str, message: str, **changes: Any) -> Snapshot:
    """The sample with another message in its last event, whose copies are left out."""
    case = load_case(SAMPLES / sample)
    event = [item for item in case.objects if item["kind"] == "Event"][-1]
    others = tuple(item for item in case.objects if item is not event)
    changed = {**copy.deepcopy(dict(event)), "message": message, **changes}
    return dataclasses.replace(case, objects=(*others, changed))


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ('failed to set up sandbox "1": plugin type="aws-cni" failed (add): add cmd: failed to assign an IP '
         "address to container", "pods that hold its addresses"),
        ('failed to set up sandbox "1": plugin type="host-local" failed (add): failed to allocate for range 0: '
         "no IP addresses available in range set: 10.4.0.1-10.4.0.62", "pods that hold its addresses"),
        ('failed to set up sandbox "1": plugin type="calico" failed (add): error getting ClusterInformation: '
         "connection is unauthorized: Unauthorized", "pod of the network plugin"),
        ("network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
         "pod of the network plugin"),
        ('failed to get sandbox runtime: no runtime for "nvidia" is configured', "kubectl get runtimeclass"),
        ("failed to create containerd task: OCI runtime create failed: runc create failed: container init was "
         "OOM-killed (memory limit too low?)", "resources"),
        ('failed to get sandbox image "registry.k8s.io/pause:3.10": failed to pull image', "pause image"),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", "kubectl describe node gpu-1"),
    ],
)  # fmt: skip
def test_a_sandbox_that_cannot_be_created(message: str, hint: str) -> None:
    cause = first(with_event("sandbox-without-an-address", f"Failed to create pod sandbox: {message}"))
    assert cause.code == "PodSandboxFailed"
    assert hint in str(cause.hint[0])


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfpods",
        "OutOfnvidia.com/gpu",
        "TopologyAffinityError",
        "NodeAffinity",
        "NodeShutdown",
        "NewReason",
    ],
)
def test_a_pod_that_a_node_rejects(reason: str) -> None:
    """Of a reason that is not known the message tells."""
    case = load_case(SAMPLES / "node-rejects-a-pod")
    for item in case.objects:
        if item["metadata"]["name"] == "demo-bcdfg-gpu-worker-bbbbb":
            item["status"].update({"reason": reason, "message": "Pod was rejected: it does not fit"})
    cause = first(case)
    assert cause.code == "NodeRejectedPod"
    assert reason in cause.message


def test_a_pod_that_failed_for_another_reason_was_not_rejected() -> None:
    case = load_case(SAMPLES / "node-rejects-a-pod")
    for item in case.objects:
        if item["metadata"]["name"] == "demo-bcdfg-gpu-worker-bbbbb":
            item["status"].update({"reason": "DeadlineExceeded", "message": "Pod was active on the node for too long"})
    objects = tuple(item for item in case.objects if item["kind"] != "Event")
    causes = diagnose(dataclasses.replace(case, objects=objects), NAME, NAMESPACE).causes
    assert "NodeRejectedPod" not in {cause.code for cause in causes}


@pytest.mark.parametrize(
    ("reason", "message", "hint"),
    [
        ("NotTriggerScaleUp", f"{NOT}: max total nodes in cluster reached", "cluster-autoscaler-status"),
        ("NotTriggerScaleUp", f"{NOT}: 1 in backoff after failed scale-up", "cluster-autoscaler-status"),
        ("NotTriggerScaleUp", f"{NOT}: 2 node(s) didn't match Pod's node affinity/selector", "--show-labels"),
        ("NotTriggerScaleUp", f"{NOT}: 2 Insufficient nvidia.com/gpu", "--show-labels"),
        ("FailedScaleUp", f"{FAILED}: GCE quota exceeded. Pod is at risk of not being scheduled.", "quota"),
        ("FailedScaleUp", f"{FAILED}: GCE out of resources. Pod is at risk of not being scheduled.", "another zone"),
        ("FailedScheduling", 'Failed to schedule pod, incompatible with nodepool "cpu", did not tolerate '
         "nvidia.com/gpu=present:NoSchedule", "nodepools.karpenter.sh"),
        ("FailedScheduling", 'Failed to schedule pod, all available instance types exceed limits for nodepool: "gpu"',
         "maximum"),
    ],
)  # fmt: skip
def test_the_answer_of_a_node_autoscaler(reason: str, message: str, hint: str) -> None:
    cause = first(with_event("node-pool-at-its-maximum", message, reason=reason))
    assert cause.code == "InsufficientGPU"
    assert "the node autoscaler adds no node: " in cause.message
    assert hint in str(cause.hint[0])

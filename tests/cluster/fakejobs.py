"""What KubeRay makes of a RayJob, as objects in the fake API server, at each stage of its life."""

from __future__ import annotations

import json
from typing import Any

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import BATCH, MANAGED_BY, MANAGER
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakekuberay import BEGUN

NAME = "sums"
CLUSTER = f"{NAME}-bcdfg"
LABELS = {BATCH: NAME, MANAGED_BY: MANAGER}
OURS = [{"manager": MANAGER, "operation": "Apply"}]
PROGRESS = {
    "event": "progress", "phase": "running", "rows": 2000, "done": 500, "errors": 3, "promptTokens": 9000,
    "completionTokens": 4000, "rowsPerSecond": 12.5, "tokensPerSecond": 800, "etaSeconds": 120, "elapsedSeconds": 40,
}  # fmt: skip
RESULT = {
    "event": "result", "rows": 2000, "answered": 1997, "errors": 3, "promptTokens": 36000, "completionTokens": 16000,
    "elapsedSeconds": 160, "output": "s3://bucket/answers",
    "firstErrors": [{"rowId": "a.jsonl:7", "error": "too long"}],
}  # fmt: skip
REJECTED = {"event": "failed", "code": "MissingColumn", "message": "no column text; there are id, body", "hint": ""}


def spec(output: str = "s3://bucket/answers") -> dict[str, Any]:
    """The spec of the RayJob; with `output` on a volume it has that volume."""
    pod: dict[str, Any] = {
        "containers": [{"name": "ray-head", "image": "example.com/ray:1", "volumeMounts": []}],
        "volumes": [{"name": "settings", "configMap": {"name": f"{NAME}-settings-1a2b"}}],
    }
    if output.startswith("/"):
        pod["containers"][0]["volumeMounts"].append({"name": "data", "mountPath": "/data"})
        pod["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    return {"backoffLimit": 2, "rayClusterSpec": {"headGroupSpec": {"template": {"spec": pod}}, "workerGroupSpecs": []}}


def job(api: FakeAPI, deployment: str = "Running", status: str = "RUNNING", **parts: Any) -> None:
    """The RayJob with its settings. `parts`: output, maxErrors, and further fields of its status."""
    output, allowed = parts.pop("output", "s3://bucket/answers"), parts.pop("maxErrors", 10)
    settings = {"job": {"maxErrors": allowed}, "output": {"path": output}}
    api.put(
        kind="ConfigMap", metadata={"name": f"{NAME}-settings-1a2b", "labels": LABELS, "managedFields": OURS},
        data={"settings.json": json.dumps(settings)},
    )  # fmt: skip
    told = {"jobDeploymentStatus": deployment, "jobStatus": status, "rayClusterName": CLUSTER, "startTime": BEGUN}
    api.put(
        kind="RayJob", metadata={"name": NAME, "labels": LABELS, "managedFields": OURS}, spec=spec(output),
        status={**told, **({"endTime": BEGUN} if deployment in ("Complete", "Failed") else {}), **parts},
    )  # fmt: skip


def pods(api: FakeAPI, phase: str = "Running") -> None:
    """The RayCluster, its head and a worker, and the submitter's pod in `phase`."""
    api.put(
        kind="RayCluster", metadata={"name": CLUSTER, "labels": {**LABELS, **_origin()}}, spec=spec()["rayClusterSpec"],
        status={"conditions": [{"type": "RayClusterProvisioned", "status": "True"}]},
    )  # fmt: skip
    for role, group in (("head", "headgroup"), ("worker", "gpu")):
        labels = {**LABELS, kuberay.CLUSTER: CLUSTER, kuberay.NODE_TYPE: role, kuberay.GROUP: group}
        _pod(api, f"{CLUSTER}-{role}", labels, f"ray-{role}", "Running")
    submitter(api, phase)


def submitter(api: FakeAPI, phase: str) -> None:
    """The submitter's pod; it stays when the RayCluster is gone."""
    _pod(api, f"{NAME}-xyzzz", {**LABELS, kuberay.JOB_NAME: NAME}, "ray-job-submitter", phase)


def says(api: FakeAPI, *said: dict[str, Any]) -> None:
    """What the driver's log holds from now on."""
    lines = ["INFO runtime env is set up", *(f"rayllm-batch {json.dumps(line)}" for line in said), "(EngineCore) busy"]
    api.answer("GET", f"/pods/{NAME}-xyzzz/log$", (200, ("\n".join(lines) + "\n").encode()))


def running(api: FakeAPI) -> None:
    """A job of which 500 of 2,000 rows are done."""
    job(api)
    pods(api)
    says(api, PROGRESS)


def ended(api: FakeAPI, said: dict[str, Any], *, succeeded: bool, **parts: Any) -> None:
    """A job that has ended and whose RayCluster is gone."""
    if succeeded:
        job(api, "Complete", "SUCCEEDED", **parts)
    else:
        job(api, "Failed", "FAILED", **{"reason": "AppFailed", "failed": 3, **parts})
    submitter(api, "Succeeded" if succeeded else "Failed")
    says(api, PROGRESS, said)


def _origin() -> dict[str, str]:
    return {kuberay.ORIGIN_NAME: NAME, kuberay.ORIGIN_KIND: "RayJob"}


def _pod(api: FakeAPI, name: str, labels: dict[str, str], container: str, phase: str) -> None:
    code = {"Succeeded": 0, "Failed": 1}.get(phase)
    state = {"running": {"startedAt": BEGUN}} if code is None else {"terminated": {"exitCode": code, "reason": "x"}}
    box = {"name": container, "ready": code is None, "restartCount": 0, "state": state}
    api.put(
        kind="Pod", metadata={"name": name, "labels": labels},
        spec={"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": container}]},
        status={
            "phase": phase, "containerStatuses": [box],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEGUN}],
        },
    )  # fmt: skip

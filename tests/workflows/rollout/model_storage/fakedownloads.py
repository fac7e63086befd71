"""What the Job controller and the code of a download do, in the fake API server."""

from __future__ import annotations

import json
from typing import Any

from rayllm_ctl.model.kube.kuberay import JOB_NAME
from rayllm_ctl.model.kube.labels import BATCH, COMPONENT, INSTANCE, MANAGED_BY, MANAGER, SERVICE
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT, DOWNLOAD_CONTAINER, SOURCE_ANNOTATION
from tests.cluster.fakeapi import FakeAPI
from tests.health.storage.manifests import job as job_manifest

JOB = "tiny-model-1234abcd"
LABELS = {MANAGED_BY: MANAGER, INSTANCE: "tiny"}
BEGAN = "2026-11-29T20:00:00Z"
ENDED = "2026-11-29T20:05:00Z"
PROGRESS = {
    "event": "progress", "phase": "fetching", "bytes": 4_100_000_000, "total": 16_400_000_000, "files": 2, "of": 9,
    "resumed": 0, "rate": 310e6, "seconds_left": 40, "file": "model-00002.safetensors",
}  # fmt: skip
DONE = {"event": "done", "bytes": 16_400_000_000, "files": 9, "fetched": 16_400_000_000, "seconds": 60, "commit": "c"}
DENIED = {"event": "failed", "code": "DownloadUnauthorized", "message": "403 of huggingface.co", "hint": ""}


def job(**spec: Any) -> dict[str, Any]:
    """The manifest of the Job."""
    made = job_manifest()
    metadata = {
        "name": JOB,
        "labels": {**LABELS, COMPONENT: DOWNLOAD_COMPONENT},
        "annotations": {SOURCE_ANNOTATION: "hf://Qwen/Qwen3-8B"},
    }
    settings = {"name": "settings", "configMap": {"name": JOB}}
    made["spec"]["template"]["spec"]["volumes"].append(settings)
    return {**made, "metadata": metadata, "spec": {**made["spec"], **spec}}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": LABELS}, "data": {"a": "b"}}


class Downloads:
    """Runs the Jobs that are applied, each as the next of `ends` says: True: complete; a failure; None: it runs.

    ended: when they are complete; the API server makes every object on 2026-11-21.
    """

    def __init__(self, api: FakeAPI, *ends: bool | dict[str, Any] | None, ended: str = ENDED) -> None:
        self._api, self._ends, self._ended, self.ran = api, list(ends), ended, 0
        api.applied = self._applied

    def _applied(self, item: dict[str, Any]) -> None:
        if item["kind"] != "Job" or item.get("status"):
            return
        end = self._ends.pop(0) if self._ends else True
        self.ran += 1
        said = [PROGRESS] + ([DONE] if end is True else [end] if end else [])
        lines = "".join(f"{BEGAN} rayllm-model {json.dumps(one)}\n" for one in said)
        pod = f"{item['metadata']['name']}-{self.ran}"
        self._api.answer("GET", f"/pods/{pod}/log$", (200, lines.encode()))
        phase = "Running" if end is None else "Succeeded" if end is True else "Failed"
        state: dict[str, Any] = {"running": {"startedAt": BEGAN}}
        if end is not None:
            code = 0 if end is True else 10
            message = "" if end is True else json.dumps(end)
            state = {"terminated": {"exitCode": code, "reason": "x", "message": message, "finishedAt": ENDED}}
        owner_labels = item["metadata"]["labels"]
        user = BATCH if BATCH in owner_labels else SERVICE
        labels = {
            JOB_NAME: item["metadata"]["name"],
            COMPONENT: DOWNLOAD_COMPONENT,
            user: owner_labels[INSTANCE],
        }
        labels["batch.kubernetes.io/controller-uid"] = item["metadata"]["uid"]
        owner = {"kind": "Job", "name": item["metadata"]["name"], "uid": item["metadata"]["uid"], "controller": True}
        self._api.put(
            kind="Pod", metadata={"name": pod, "labels": labels, "ownerReferences": [owner]},
            spec={"containers": [{"name": DOWNLOAD_CONTAINER}]},
            status={
                "phase": phase,
                "containerStatuses": [
                    {"name": DOWNLOAD_CONTAINER, "ready": end is None, "restartCount": 0, "state": state}
                ],
            },
        )  # fmt: skip
        self._end(item, end)

    def _end(self, item: dict[str, Any], end: bool | dict[str, Any] | None) -> None:
        if end is None:
            return
        condition = {"type": "Complete" if end is True else "Failed", "status": "True", "lastTransitionTime": ENDED}
        if end is not True:
            condition |= {"reason": "PodFailurePolicy", "message": "exit code 10"}
        done = {"completionTime": self._ended} if end is True else {}
        self._api.put(**{**item, "status": {"conditions": [condition], **done}})

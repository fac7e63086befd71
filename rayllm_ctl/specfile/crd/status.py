"""What the controller writes into the status of LLMServices and BatchJobs, and the columns that `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.specfile.crd.schema import Schema

_TEXT: Schema = {"type": "string", "maxLength": 1024}
_MESSAGE: Schema = {"type": "string", "maxLength": 32_768}
_COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 0}
_GENERATION: Schema = {
    "type": "integer",
    "format": "int64",
    "minimum": -1,
    "description": "metadata.generation of the spec to which this belongs; -1 before the first look.",
}
_TIME: Schema = {"type": "string", "format": "date-time"}

_CONDITION: Schema = {
    "type": "object",
    "description": "As metav1.Condition.",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {"type": "string", "maxLength": 316, "pattern": "^[A-Za-z][A-Za-z0-9]*$"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": _GENERATION,
        "lastTransitionTime": _TIME,
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "description": "A code of docs/reference/diagnosis-codes.md, or a word.",
        },
        "message": {**_MESSAGE, "description": "The evidence, and what to do next."},
    },
}

_PLAN: Schema = {
    "type": "object",
    "description": "What was planned; `rayllm-ctl plan` explains it.",
    "properties": {
        "verdict": {**_TEXT, "description": "Fits, Risky, DoesNotFit or InvalidSpec."},
        "gpu": {**_TEXT, "description": "GPU type."},
        "tensorParallel": {**_COUNT, "description": "Tensor parallel size."},
        "pipelineParallel": {**_COUNT, "description": "Pipeline parallel size."},
        "gpusPerReplica": {**_COUNT, "description": "GPUs of one replica."},
        "gpus": {**_COUNT, "description": "GPUs of all replicas, at the minimum of them."},
        "contextLength": {**_COUNT, "description": "Longest request, in tokens."},
        "startupSeconds": {**_COUNT, "description": "How long a start may take."},
        "usdPerHour": {"type": "number", "description": "Price of these GPUs, if it is known."},
    },
}

UNSEEN_STATUS = {"observedGeneration": -1}
"""Of an object that the controller has not looked at: without it kstatus takes a new object for one that is done."""

_COMMON: Mapping[str, Schema] = {
    "observedGeneration": _GENERATION,
    "conditions": {
        "type": "array",
        "maxItems": 32,
        "items": _CONDITION,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    "plan": _PLAN,
    "models": {"type": "array", "maxItems": 512, "items": _TEXT, "description": "Names by which clients ask for them."},
    "revision": {"type": "integer", "format": "int64", "minimum": 0, "description": "Number in `rayllm-ctl history`."},
}

SERVICE_STATUS: Schema = {
    "type": "object",
    "description": "What was seen of the service last. The controller writes it.",
    "default": UNSEEN_STATUS,
    "properties": {
        **_COMMON,
        "url": {**_TEXT, "description": "Address of the OpenAI-compatible API."},
        "replicas": {**_COUNT, "description": "Replicas that are wanted."},
        "readyReplicas": {**_COUNT, "description": "Replicas that answer."},
        "replicasText": {**_TEXT, "description": "readyReplicas/replicas, for kubectl get."},
        "selector": {
            "type": "string",
            "maxLength": 4096,
            "description": "Label selector of the worker pods, for HPAs.",
        },
    },
}

BATCH_STATUS: Schema = {
    "type": "object",
    "description": "What was seen of the job last. The controller writes it.",
    "default": UNSEEN_STATUS,
    "properties": {
        **_COMMON,
        "state": {**_TEXT, "description": "Pending, Running, Suspended, Succeeded, Failed, ..."},
        "rows": {
            "type": "object",
            "description": "Rows of the input.",
            "properties": {
                name: {"type": "integer", "format": "int64", "minimum": 0} for name in ("total", "done", "failed")
            },
        },
        "rowsText": {**_TEXT, "description": "done/total, for kubectl get."},
        "output": {**_TEXT, "description": "Where the answers are."},
        "digest": {**_TEXT, "description": "Of the spec that was started last."},
        "ended": {"type": "boolean", "description": "Whether that has ended: it is not started again."},
    },
}

_READY = '.status.conditions[?(@.type=="Ready")]'


def _column(name: str, path: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, **more}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
_MODEL = _column("Model", ".status.models[0]")
_GPUS = _column("GPUs", ".status.plan.gpus", "integer")
_REASON = _column("Reason", f"{_READY}.reason")
_OUTCOME = _column("Outcome", '.status.conditions[?(@.type=="Complete")].reason')

SERVICE_COLUMNS = (
    _MODEL,
    _column("Ready", f"{_READY}.status"),
    _REASON,
    _column("Replicas", ".status.replicasText"),
    _GPUS,
    _column("URL", ".status.url"),
    _AGE,
)
BATCH_COLUMNS = (_MODEL, _column("State", ".status.state"), _OUTCOME, _column("Rows", ".status.rowsText"), _GPUS, _AGE)

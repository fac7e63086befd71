"""Damaged specs: whatever is stored, the controller ends with a service or with a reason."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from rayllm_ctl.controller.batch import BatchReconciler
from rayllm_ctl.controller.declared import declare
from rayllm_ctl.controller.types import Key
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.specfile.crd.definition import batch_definition, service_definition
from tests.controller.conftest import Controlled
from tests.specfile.crd.admission import Admission

_CORPUS = Path(__file__).parents[1] / "render"

_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 128, 1_000_000, 2**31, 2**53, 2**63, -(2**63), 0.0, 0.5, -1.5, 1e300, "", " ",
    "0", "8", "1e9", "-5s", "10s", "1000000h", "64Gi", "1.5Ei", "m", "H100-80GB", "L4", "cpu", "nonsense", "a/b",
    "../..", "Qwen/Qwen3-32B", "{{ x }}", "$(X)", "\n", "\u0000", "é" * 40, "x" * 5000, [], [0], [None, "a"], [[]], {},
    {"": ""}, {"name": "a"}, {"id": "Qwen/Qwen3-8B"}, [{"name": "a", "value": "b"}, {"name": "a", "value": "c"}],
)  # fmt: skip

_KEYS = (
    "model", "models", "accelerator", "parallelism", "tensor", "pipeline", "replicas", "min", "max", "count", "engine",
    "args", "maxModelLen", "maxNumSeqs", "gateway", "apiKeys", "load", "storage", "scheduling", "security", "patches",
    "suspend", "planOnly", "renderVersion", "rollout", "mode", "name", "id", "path", "gpu", "kind", "resources",
    "applications",
)  # fmt: skip

REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""What the API server takes as the reason of a condition."""


def sound_objects() -> list[dict[str, Any]]:
    """The objects of the golden corpus, as they are stored in namespace llm."""
    files = [*sorted((_CORPUS / "specs").glob("*.yaml")), *sorted((_CORPUS / "batchspecs").glob("*.yaml"))]
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    return [{**one, "metadata": {"name": one["metadata"]["name"], "namespace": "llm"}} for one in documents]


def damaged(item: dict[str, Any], others: Sequence[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """`item` with one or two parts of its spec dropped, replaced, added, or taken from another object."""
    spec = copy.deepcopy(item["spec"])
    for _ in range(rng.randint(1, 2)):
        places = list(_places(spec))
        place, key = rng.choice(places)
        action = rng.random()
        if action < 0.2:
            del place[key]
            if not spec:
                break
        elif action < 0.5:
            place[key] = copy.deepcopy(rng.choice(_ODD))
        elif action < 0.6:
            spec[rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_ODD))
        elif action < 0.7 and isinstance(place[key], dict):
            place[key][rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_ODD))
        elif action < 0.8 and isinstance(place[key], int):
            place[key] = place[key] * rng.choice((-1, 2, 10, 1_000_000))
        elif action < 0.85 and isinstance(place, list):
            place.append(copy.deepcopy(place[key]))
        else:
            other = rng.choice(others)["spec"]
            name = rng.choice(list(other))
            spec[name] = copy.deepcopy(other[name])
    return {**item, "spec": spec}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container below `value`, with a key of it."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, part in pairs:
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def status_problems(kind: str, status: dict[str, Any]) -> list[str]:
    """Why the API server would not store a status as it is."""
    found = _admission(kind).problems({"status": status})
    return [one for one in found if one.startswith(".status")]


@functools.cache
def _admission(kind: str) -> Admission:
    return Admission(batch_definition() if kind == "BatchJob" else service_definition())


def outcome(controlled: Controlled, item: dict[str, Any]) -> str:
    """What becomes of an object: `rejected` by the reader, `applied`, or why it is stalled.

    AssertionError where its status says neither, or what the API server does not take; whatever else a reconciliation
    raises passes through.
    """
    kind, name = item["kind"], item["metadata"]["name"]
    stored = controlled.api.put(kind=kind, metadata=item["metadata"], spec=json.loads(json.dumps(item["spec"])))
    rejected = declare(stored).problem is not None
    controlled.look()
    key = Key(kind, "llm", name)
    if kind == "BatchJob":
        BatchReconciler(controlled.cluster, controlled.caches, OFFLINE).reconcile(key)
    else:
        controlled.reconciler.reconcile(key)
    status = controlled.api.stored(kind, name)["status"]
    assert status_problems(kind, status) == []
    conditions = {one["type"]: one for one in status["conditions"]}
    for one in conditions.values():
        assert REASON.fullmatch(one["reason"]), one
        assert one["status"] in ("True", "False", "Unknown"), one
        assert len(one["message"]) <= 32768, one
    stalled, applied = conditions["Stalled"], conditions["Applied"]
    if rejected:
        assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec"), conditions
        assert stalled["message"], conditions
        return "rejected"
    if stalled["status"] == "True":
        assert stalled["message"], conditions
        assert stalled["reason"] not in ("Fits", "Applied", "AsExpected"), conditions
        return str(stalled["reason"])
    assert applied["status"] == "True" or applied["reason"] in ("PlanOnly", "Downloading"), conditions
    return str(applied["reason"])

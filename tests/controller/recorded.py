"""The recorded samples of tests/health as LLMServices and BatchJobs: what the controller writes of each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.cluster.snapshot.serve_states import ServeStates
from rayllm_ctl.controller import observe
from rayllm_ctl.controller.batch import BatchFacts, decide_batch, make_batch_status
from rayllm_ctl.controller.committed import Committed
from rayllm_ctl.controller.decide import Facts, next_step
from rayllm_ctl.controller.declared import declare
from rayllm_ctl.controller.observe import Observer
from rayllm_ctl.controller.status import make_status
from rayllm_ctl.controller.types import Key, child_key
from rayllm_ctl.health import diagnose_job
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.kube.owned import owned
from rayllm_ctl.model.observed.health import Object, Snapshot
from tests.health.cases import NAME, NAMESPACE

NOW = "2026-03-01T12:10:00Z"
_MODEL = {"model": {"id": "Qwen/Qwen3-0.6B"}, "accelerator": {"gpu": "L4"}}
_APPLIED = [{"manager": CONTROLLER, "operation": "Apply", "time": "2026-03-01T12:00:00Z"}]


def service_item(
    case: Snapshot, kind: str, monkeypatch: pytest.MonkeyPatch, *, was_ready: bool = False, **spec: Any
) -> dict[str, Any]:
    """The LLMService whose parts are those of a sample. was_ready: another process has said so before, and this one
    has run for ten minutes.
    """
    item = _item("LLMService", _MODEL | spec)
    item["status"] = {"observedGeneration": 1, "conditions": [{"type": "Applied", "status": "True"}]}
    declared = declare(item)
    assert declared.problem is None, declared.problem
    live = _child(
        next((one for one in case.objects if (one["kind"], one["metadata"]["name"]) == (kind, NAME)), None), item
    )
    stored = {child_key(one): one for one in case.objects if one["kind"] != "Event"}
    health = None
    if live is not None:
        stored[child_key(live)] = live
        monkeypatch.setattr(observe, "collect", lambda *_: case)
        monkeypatch.setattr(observe, "datetime", _at(case))
        monkeypatch.setattr(ServeStates, "ask", lambda *_: case.serve)
        cluster: Any = None
        key = Key("LLMService", NAMESPACE, NAME)
        observer = Observer(cluster)
        for seconds in (0.0, max(observe.CONFIRM_SECONDS)) if was_ready else (0.0,):
            monkeypatch.setattr(observe, "time", SimpleNamespace(monotonic=lambda now=seconds: now))
            health = observer.observe(key, live, stored, was_ready=was_ready).health
    committed = Committed(1, declared.digest, "", True, ((kind, NAME),), plan={"verdict": "Fits"})
    facts = Facts(declared, committed, None, live, stored, health)
    item["status"] = make_status(facts, next_step(facts, ()), NOW)
    return item


def job_item(case: Snapshot) -> dict[str, Any]:
    """The BatchJob whose RayJob is that of a sample."""
    item = _item("BatchJob", _MODEL | {"input": {"prompts": ["a"]}, "output": {"path": "s3://bucket/out"}})
    declared = declare(item)
    assert declared.problem is None, declared.problem
    job = _child(
        next((one for one in case.objects if (one["kind"], one["metadata"]["name"]) == ("RayJob", NAME)), None), item
    )
    stored = {child_key(one): one for one in case.objects if one["kind"] != "Event"}
    health = diagnose_job(case, NAME, NAMESPACE) if job is not None else None
    facts = BatchFacts(
        declared, declared.digest, health is not None and health.outcome is not None, job, stored, health
    )
    item["status"] = make_batch_status(facts, decide_batch(facts), None, None, NOW)
    return item


def _item(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": NAMESPACE, "uid": "u1", "generation": 1}
    return {"apiVersion": "rayllm.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _child(found: Object | None, owner: Object) -> dict[str, Any] | None:
    """An object as the controller has applied it."""
    if found is None:
        return None
    metadata = {"uid": "w1", **found["metadata"], "managedFields": _APPLIED}
    return owned({**found, "metadata": metadata}, owner)


def _at(case: Snapshot) -> type[datetime]:
    """A datetime whose time is that of a sample."""

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return case.now

    return Then

"""Bundles: what a folder holds becomes a Snapshot, and what is not a bundle is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.observed.health import State
from rayllm_ctl.workflows.observe.bundle.read import read_bundle
from rayllm_ctl.workflows.observe.status import from_bundle


def write(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_json", ".json").replace("_log", ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def test_a_bundle_is_read_whole(tmp_path: Path) -> None:
    write(
        tmp_path,
        objects_json={"kind": "List", "items": [{"kind": "Pod"}]},
        meta_json={"time": "2026-03-01T12:00:00Z"},
        serve__demo_json={"applications": {}},
        logs__head__ray_log="line\n",
    )
    snapshot = read_bundle(tmp_path)
    assert snapshot.objects == ({"kind": "Pod"},)
    assert snapshot.now == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert snapshot.serve == {"demo": {"applications": {}}}
    assert snapshot.logs == {"head/ray.log": "line\n"}


def test_serve_and_logs_may_be_missing(tmp_path: Path) -> None:
    snapshot = read_bundle(write(tmp_path, objects_json={"items": []}))
    assert (snapshot.serve, snapshot.logs) == ({}, {})


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "does not exist"),
        ({"objects_json": "{"}, "cannot be read"),
        ({"objects_json": []}, "is not a list"),
        ({"objects_json": {"items": []}, "meta_json": {"time": "yesterday"}}, "does not have a valid time"),
        ({"objects_json": {"items": []}, "serve__x_json": "nope"}, "cannot be read"),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, files: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        read_bundle(write(tmp_path, **files))
    assert refused.value.hints


CLUSTER = {"kind": "RayCluster", "metadata": {"name": "demo-a"}}
POD = {"kind": "Pod", "metadata": {"name": "demo-a-head", "labels": {"ray.io/cluster": "demo-a"}}}
RUNS = {**CLUSTER, "status": {"conditions": [{"type": "HeadPodReady", "status": "True"}]}}
SERVES = {"kind": "RayService", "metadata": {"name": "demo"}, "status": {"numServeEndpoints": 1}}
TOLD: dict[str, object] = {"serve__demo-a_json": {"applications": {"llm": {}}}}


@pytest.mark.parametrize(
    ("items", "more", "unread"),
    [
        ([CLUSTER], {}, False),
        ([RUNS], {}, True),
        ([SERVES], {}, True),
        ([CLUSTER], TOLD, True),
        ([RUNS, SERVES, POD], TOLD, False),
        ([RUNS], {"meta_json": {"time": "2026-03-01T12:00:00Z", "unread": []}}, False),
    ],
)
def test_pods_that_an_old_bundle_lacks_are_missing_only_where_none_is_told_of(
    tmp_path: Path, items: list[object], more: dict[str, object], unread: bool
) -> None:
    snapshot = read_bundle(write(tmp_path, objects_json={"items": items}, **more))
    assert ("Pod" in snapshot.unread) is unread
    assert "RayService" not in snapshot.unread


def test_what_could_not_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    meta = {"time": "2026-03-01T12:00:00Z", "namespace": "llm", "unread": ["RayService"]}
    write(tmp_path, objects_json={"items": []}, meta_json=meta)
    assert from_bundle(tmp_path, "demo", None).health.state is State.UNKNOWN
    write(tmp_path, meta_json={**meta, "unread": ["RayCluster"]})
    assert from_bundle(tmp_path, "demo", None).health.state is State.UNKNOWN
    write(tmp_path, meta_json={**meta, "unread": []})
    assert from_bundle(tmp_path, "demo", None).health.state is State.NOT_FOUND

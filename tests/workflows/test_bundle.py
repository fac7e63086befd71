"""Bundles: what a folder holds becomes a Snapshot, and what is no bundle is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.workflows.bundle import read_bundle


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
        ({"objects_json": []}, "holds no list"),
        ({"objects_json": {"items": []}, "meta_json": {"time": "yesterday"}}, "no readable time"),
        ({"objects_json": {"items": []}, "serve__x_json": "nope"}, "cannot be read"),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, files: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        read_bundle(write(tmp_path, **files))
    assert refused.value.hints

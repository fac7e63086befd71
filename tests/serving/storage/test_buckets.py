"""Downloads from and into buckets, whose filesystem is a folder here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rayllm_ctl.serving.buckets import filesystems
from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.settings import load_settings
from rayllm_ctl.serving.storage.wait import wait
from tests.catalog.hubserver import flip
from tests.serving.storage.conftest import SHARDS, Rig, content, model, told

Capture = pytest.CaptureFixture[str]
SOURCE, TARGET = "s3://data/source", "s3://data/target/small"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the bucket `data`; files are written below it, as an object store needs no folders."""
    root = tmp_path / "buckets"
    (root / "data").mkdir(parents=True)

    local = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())

    class Objects:
        def __getattr__(self, name: str) -> Any:
            return getattr(local, name)

        def open_output_stream(self, path: str, **options: Any) -> Any:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            return local.open_output_stream(path, **options)

    monkeypatch.setattr(filesystems, "s3", lambda name, access: Objects())
    return root / "data"


def fill(bucket: Path) -> None:
    for name, found in model().items():
        path = bucket / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found)


def objects(bucket: Path) -> dict[str, bytes]:
    return content(bucket / "target" / "small")


def test_from_a_bucket_into_a_folder(rig: Rig, bucket: Path, capsys: Capture) -> None:
    fill(bucket)
    rig.download(capsys, source=SOURCE, revision=None)
    assert content(rig.target) == model()
    assert {entry["verified"] for entry in rig.marker()["files"].values()} == {"size"}


def test_from_the_hub_into_a_bucket(rig: Rig, bucket: Path, capsys: Capture) -> None:
    rig.download(capsys, target=TARGET)
    assert objects(bucket) == model()
    marker = json.loads((bucket / "target/small/.rayllm-complete").read_text())
    assert marker["files"][SHARDS[0]]["sha256"] == hashlib.sha256(model()[SHARDS[0]]).hexdigest()
    assert rig.download(capsys, target=TARGET)["fetched"] == 0


def test_a_marked_bucket_is_verified_by_its_marker(rig: Rig, bucket: Path, capsys: Capture) -> None:
    rig.download(capsys, target=TARGET)
    rig.download(capsys, source=TARGET, revision=None)
    assert {entry["verified"] for entry in rig.marker()["files"].values()} == {"sha256"}
    wrong = bucket / "target/small" / SHARDS[0]
    wrong.write_bytes(flip(wrong.read_bytes()))
    error = rig.failure(source=TARGET, revision=None, target=str(rig.root / "other"))
    assert (error.code, SHARDS[0] in error.message) == ("DownloadCorrupt", True)


def test_objects_that_were_verified_are_not_uploaded_again(rig: Rig, bucket: Path, capsys: Capture) -> None:
    rig.hub.flipped[SHARDS[0]] = 1000
    assert rig.failure(target=TARGET).code == "DownloadCorrupt"
    assert not (bucket / "target/small/.rayllm-complete").exists()
    rig.hub.flipped.clear()
    kept = sum(path.stat().st_size for path in (bucket / "target/small/1_Pooling").iterdir())
    done = rig.download(capsys, target=TARGET)
    assert objects(bucket) == model()
    assert done["fetched"] <= done["bytes"] - kept


def test_an_object_of_the_right_size_without_a_record_is_not_trusted(rig: Rig, bucket: Path, capsys: Capture) -> None:
    path = bucket / "target/small" / SHARDS[0]
    path.parent.mkdir(parents=True)
    path.write_bytes(flip(model()[SHARDS[0]]))
    rig.download(capsys, target=TARGET)
    assert objects(bucket) == model()


def test_verify_reads_the_objects(rig: Rig, bucket: Path, capsys: Capture) -> None:
    rig.download(capsys, target=TARGET)
    path = bucket / "target/small" / SHARDS[1]
    path.write_bytes(flip(path.read_bytes()))
    done = rig.download(capsys, target=TARGET, verify=True)
    assert (objects(bucket), done["fetched"] >= len(model()[SHARDS[1]])) == (model(), True)


def test_a_wait_for_a_bucket_ends_once_it_is_complete(rig: Rig, bucket: Path, capsys: Capture) -> None:
    settings = load_settings(rig.settings(target=TARGET))

    def finish(_: float) -> None:
        rig.download(capsys, target=TARGET)

    wait(settings, sleep=finish)
    assert told(capsys.readouterr().out) == []


@pytest.mark.parametrize("source", ["s3://data/none", "s3://none/x"])
def test_an_empty_source_is_not_found(rig: Rig, bucket: Path, source: str) -> None:
    error = rig.failure(source=source, revision=None)
    assert isinstance(error, StorageError)
    assert error.code == "DownloadNotFound"


def test_credentials_are_those_of_the_role(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def made(name: str, access: Any) -> Any:
        seen.append(access)
        return fs.LocalFileSystem()

    monkeypatch.setattr(filesystems, "s3", made)
    monkeypatch.setenv("SOURCE_AWS_ACCESS_KEY_ID", "of-source")
    monkeypatch.setenv("SOURCE_AWS_SECRET_ACCESS_KEY", "hidden")
    rig.failure(source="s3://none/x", revision=None, source_store={"endpoint": "http://minio:9000", "region": "a"})
    assert (seen[0].access_key, seen[0].secret_key, seen[0].endpoint) == ("of-source", "hidden", "http://minio:9000")
    assert "hidden" not in repr(seen[0])

"""Wheels are pinned by their digest when they are first read, and only the pinned file is taken from then on."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from scripts.knowledge import wheels
from scripts.knowledge.objects import BUILDS, DATA, pages


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of one wheel, which may be changed; the lock file and the cache are empty."""
    wheel = tmp_path / "index" / "demo-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    publish(wheel, "VALUE = 1\n")

    def download(package: str, version: str, folder: Path) -> Path:
        found = folder / wheel.name
        found.write_bytes(wheel.read_bytes())
        return found

    monkeypatch.setattr(wheels, "_download", download)
    monkeypatch.setattr(wheels, "LOCK", tmp_path / "wheels.lock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return wheel


def publish(wheel: Path, source: str) -> None:
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/__init__.py", source)
        archive.writestr("demo/data.bin", "x" * 100)
        archive.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nRequires-Dist: click>=8\n")


def test_a_wheel_is_pinned_when_it_is_first_read(index: Path) -> None:
    folder = wheels.package_sources("demo", "1.0")
    assert (folder / "demo" / "__init__.py").read_text() == "VALUE = 1\n"
    assert not (folder / "demo" / "data.bin").exists()
    assert wheels.requirements("demo", "1.0") == ["click>=8"]
    assert list(wheels.pinned()) == [("demo", "1.0")]


def test_another_file_under_the_same_name_is_rejected(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels.package_sources("demo", "1.0")
    before = wheels.LOCK.read_text()
    publish(index, "VALUE = 2\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    with pytest.raises(wheels.WheelMissing, match=r"is not the file that wheels\.lock pins"):
        wheels.package_sources("demo", "1.0")
    assert wheels.LOCK.read_text() == before


def test_pages_are_those_of_16_tokens_or_of_a_state() -> None:
    specs = [
        [65536, 128, 0, 2, "FullAttentionSpec"],
        [32768, 64, 0, 1, "FullAttentionSpec"],
        [536576, 4096, 0, 6, "MambaSpec"],
        [12288, 3, 3, 6, "SlidingWindowSpec"],
    ]
    assert pages(specs) == [[8192, 0, 3], [12288, 3, 6], [536576, 0, 6]]


def test_what_models_need_to_be_built_is_said_of_models_that_the_data_has() -> None:
    names = {
        "architectures.json": set(json.loads((DATA / "architectures.json").read_text())["cases"]),
        "encoders.jsonl": {json.loads(line)["name"] for line in (DATA / "encoders.jsonl").read_text().splitlines()},
        "parameters.json": {row[0] for row in json.loads((DATA / "parameters.json").read_text())["rows"]},
    }
    for file, known in names.items():
        needs, unbuilt = BUILDS[file]["models"], BUILDS[file]["unbuilt"]
        assert set(needs) | set(unbuilt) <= known
        assert not set(needs) & set(unbuilt)
        assert all(unbuilt.values()), "a model that is not built has the reason"

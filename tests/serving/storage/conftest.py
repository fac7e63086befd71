"""A hub with a small model, and downloads from it in this process or in others."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.serving.storage import events, transfer
from rayllm_ctl.serving.storage.download import download
from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.settings import load_settings
from tests.catalog.hubserver import CONFIG, Hub, running, safetensors

MODEL = "acme/small"
PART_BYTES = 1 << 16
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")

# The process reads in small parts, so that small files have several.
PROGRAM = f"""
import runpy, sys
from rayllm_ctl.serving.storage import transfer
transfer.PART_BYTES = {PART_BYTES}
runpy.run_module("rayllm_ctl.serving.storage", run_name="__main__")
"""


def weights(size: int, seed: int) -> bytes:
    """A safetensors file with random content."""
    empty = safetensors(size)
    return empty[: len(empty) - size] + random.Random(seed).randbytes(size)


def model() -> dict[str, bytes]:
    """The files of the model, those that engines need."""
    index = {"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b'{"a": 1}' * 4000,
        "1_Pooling/config.json": b"{}",
        "model.safetensors.index.json": json.dumps(index).encode(),
        "empty.txt": b"",
        SHARDS[0]: weights(700_001, 1),
        SHARDS[1]: weights(300_000, 2),
    }


SKIPPED = {"pytorch_model.bin": b"x" * 1000, "original/consolidated.safetensors": b"x", "onnx/model.onnx": b"x"}


@dataclass
class Rig:
    """A hub, and a folder for targets."""

    hub: Hub
    root: Path
    lines: list[str] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.root / "models" / MODEL / "main"

    def settings(self, **given: Any) -> str:
        path = self.root / "settings.json"
        data = {"source": f"hf://{MODEL}", "revision": "main", "target": str(self.target)}
        path.write_text(json.dumps({**data, "source_store": None, "target_store": None, **given}))
        return str(path)

    def download(self, capture: pytest.CaptureFixture[str], *, verify: bool = False, **given: Any) -> dict[str, Any]:
        """Download in this process; the line `done`."""
        capture.readouterr()
        download(load_settings(self.settings(**given)), verify=verify)
        return told(capture.readouterr().out)[-1]

    def failure(self, **given: Any) -> StorageError:
        with pytest.raises(StorageError) as failed:
            download(load_settings(self.settings(**given)))
        return failed.value

    def start(self, command: str = "download", **given: Any) -> subprocess.Popen[str]:
        """The program as a process of its own."""
        environment = {**os.environ, "HF_ENDPOINT": self.hub.address}
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, command, "--settings", self.settings(**given)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def marker(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.target / ".rayllm-complete").read_text())
        return found


def told(text: str) -> list[dict[str, Any]]:
    """The events of an output."""
    lines = [line for line in text.splitlines() if line.startswith(events.EVENT_PREFIX)]
    return [json.loads(line.removeprefix(events.EVENT_PREFIX)) for line in lines]


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without its marker."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != ".rayllm-complete"}


@pytest.fixture(autouse=True)
def _small_and_quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transfer, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr(transfer, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(events, "_TERMINATION_LOG", tmp_path / "termination-log")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    with running(Hub()) as hub:
        hub.files[MODEL] = {**model(), **SKIPPED}
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield Rig(hub, tmp_path)

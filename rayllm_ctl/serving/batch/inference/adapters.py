"""LoRA adapters: which there are, whether the engine can hold them, and where an engine finds their files.

An adapter is a folder of files below engine.loraPath. What is in an object store is copied here: Ray's own download
(2.60, ray/llm/_internal/common/utils) knows no paths of volumes and no S3 endpoint, and proceeds without the files that
it does not get.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.settings import Settings, Storage
from rayllm_ctl.serving.batch.storage import Store, filesystem, storage_errors

CONFIG = "adapter_config.json"
"""The file that makes a folder an adapter, as PEFT writes it."""

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_DEFAULT_RANK = 16
"""Values of max_lora_rank, and the one without it (vLLM 0.29, vllm/config/lora.py)."""
_COPY_BYTES = 8 << 20


def is_name(name: str) -> bool:
    """Whether it can be the name of a folder right below another one."""
    return name not in ("", ".", "..") and name.isprintable() and "/" not in name and "\\" not in name


def check(settings: Settings, names: Iterable[str]) -> None:
    """BatchError for the first adapter that is not there, or that the engine cannot hold."""
    for name in sorted(set(names)):
        place = f"{_root(settings.engine.loraPath)}/{name}"
        found = Store(place, settings.storage).read(CONFIG)
        if found is None:
            raise BatchError(
                "InputMissing",
                f"the LoRA adapter {name} was not found: there is no {place}/{CONFIG}",
                "check the adapter's name (--adapter) and spec.model.loraPath (--lora-path), which contains its folder",
            )
        try:
            rank = json.loads(found)["r"]
        except (ValueError, TypeError, KeyError):
            raise BatchError(
                "WrongFormat",
                f"{place}/{CONFIG} is not the configuration of a LoRA adapter: it states no rank (r)",
                "save the adapter again, as PEFT's save_pretrained does",
            ) from None
        _check_rank(name, rank, settings.engine.kwargs.get("max_lora_rank", _DEFAULT_RANK))


def _check_rank(name: str, rank: Any, most: Any) -> None:
    if not isinstance(rank, int) or not isinstance(most, int) or rank <= most:
        return
    enough = next((value for value in _RANKS if value >= rank), None)
    raise BatchError(
        "InvalidSpec",
        f"the LoRA adapter {name} has rank {rank}, and the engine holds adapters up to rank {most}",
        f"set max_lora_rank: {enough} in spec.engine.args (--engine-arg max_lora_rank={enough})"
        if enough
        else f"vLLM has adapters up to rank {_RANKS[-1]} only",
    )


@dataclass
class Folders:
    """The adapters' folders on this machine. `path` and `storage` are those of the job's settings."""

    path: str
    storage: Storage
    _copies: list[Any] = field(default_factory=list)

    def of(self, name: str) -> str:
        """The folder of an adapter, copied if it is in an object store. BatchError if it cannot be had."""
        place = f"{_root(self.path)}/{name}"
        files, inner = filesystem(place, self.storage)
        with storage_errors(place):
            if not is_name(name) or files.get_file_info(f"{inner}/{CONFIG}").type != fs.FileType.File:
                raise BatchError("InputMissing", f"there is no LoRA adapter {name} in {self.path}", "check its name")
            if isinstance(files, fs.LocalFileSystem):
                return inner
            copy = tempfile.TemporaryDirectory(prefix="rayllm-adapter-")
            self._copies.append(copy)  # vLLM reads an adapter again that did not fit before.
            for found in files.get_file_info(fs.FileSelector(inner)):
                if found.type == fs.FileType.File and is_name(found.base_name):
                    _copy(files, found.path, Path(copy.name) / found.base_name)
        return copy.name


def _copy(files: Any, path: str, target: Path) -> None:
    with files.open_input_stream(path, compression=None) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, _COPY_BYTES)


def _root(path: str | None) -> str:
    return (path or "").rstrip("/")

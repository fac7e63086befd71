"""Which files of a model an engine needs.

vLLM takes safetensors files if there are any, otherwise *.bin and *.pt (vllm 0.29,
model_executor/model_loader/default_loader.py), and any configuration, tokenizer and code that is beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
"""Formats of weights, the first of which that there is is downloaded."""

_NEVER = frozenset(
    {".onnx", ".onnx_data", ".h5", ".msgpack", ".ot", ".tflite", ".ckpt", ".mlmodel", ".mlpackage", ".nemo", ".xml"}
)
_FOLDERS = frozenset({"onnx", "openvino", "original", "coreml", "flax", "tf", "tensorflow", "metal", "gguf"})
"""Folders with the same weights for other programs."""

_NAME = re.compile(r"[^\\\x00-\x1f]+")


def select(files: Iterable[Remote], commit: str | None = None) -> Listing:
    """The files that are needed, of all of a source. StorageError if there are no weights among them."""
    wanted: list[Remote] = []
    skipped: list[Remote] = []
    for file in sorted(files, key=lambda one: one.name):
        check_name(file.name)
        parts = PurePosixPath(file.name).parts
        if any(part.startswith(".") for part in parts):
            continue  # settings of Git, and markers
        needed = not (_FOLDERS & set(parts[:-1]) or suffix(file.name) in _NEVER)
        (wanted if needed else skipped).append(file)
    kinds = {suffix(file.name) for file in wanted}
    kind = next((kind for kind in _WEIGHTS if kind in kinds), None)
    if kind is None:
        raise StorageError(
            "DownloadNotFound",
            f"no weights are among the {len(wanted)} files of the source",
            "set spec.storage.model.mirror.from to the folder with *.safetensors",
        )
    others = set(_WEIGHTS) - {kind}
    skipped += [file for file in wanted if suffix(file.name) in others]
    wanted = [file for file in wanted if suffix(file.name) not in others]
    return Listing(tuple(wanted), tuple(sorted(one.name for one in skipped)), commit)


def suffix(name: str) -> str:
    """The extension, in lower case."""
    return PurePosixPath(name).suffix.lower()


def check_name(name: str) -> None:
    """StorageError if a name leads out of the folder."""
    parts = name.split("/")
    if not _NAME.fullmatch(name) or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise StorageError(
            "DownloadFailed", f"the source has a file with an invalid name: {name[:200]!r}", "remove it from the source"
        )

"""A checkpoint on this machine: config.json and the files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.sources.found import (
    MAX_HEADER_BYTES,
    MAX_JSON_BYTES,
    Checkpoint,
    has_template,
    indexed_bytes,
    parse_object,
)
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.files import STANDARD_INPUT, input_name, read_input

_CONFIG = "config.json"
_HINT = "--model-config PATH    # a config.json, or the directory that contains it"
_QUANTIZATION = "hf_quant_config.json"
_INDEX = "model.safetensors.index.json"


def read_model_folder(path: Path, source: str | None = None) -> Checkpoint:
    """The checkpoint whose config.json, or whose directory, `path` is. UsageError if it is missing or corrupt."""
    if path.is_dir():
        return _folder(path, source)
    if not path.exists() and str(path) != STANDARD_INPUT:
        raise UsageError(f"{path} does not exist", hint=_HINT)
    config = _object(path)
    beside = path.parent / _QUANTIZATION
    quantization = _object(beside) if path.name == _CONFIG and beside.is_file() else None
    return Checkpoint(config, source or input_name(path), quantization)


def _folder(path: Path, source: str | None) -> Checkpoint:
    config = path / _CONFIG
    if not config.is_file():
        raise UsageError(
            f"{path} contains no {_CONFIG}",
            hint=_HINT,
        )
    quantization = path / _QUANTIZATION
    return Checkpoint(
        config=_object(config),
        source=source or str(config),
        quantization=_object(quantization) if quantization.is_file() else None,
        exact_bytes=_tensor_bytes(path),
        chat_template=_chat_template(path),
    )


def _object(path: Path) -> dict[str, Any]:
    try:
        data = read_input(path, "--model-config FILE", MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise UsageError(f"{input_name(path)} is larger than {MAX_JSON_BYTES / 1e6:.0f} MB")
        return parse_object(data, input_name(path))
    except OSError as error:
        raise UsageError(f"cannot read {input_name(path)}: {error.strerror or error}") from error
    except UsageError:
        raise
    except UserError as error:
        raise UsageError(error.message) from error


def _tensor_bytes(folder: Path) -> int | None:
    """Bytes of all tensors: from the headers where every file is there, else as the index states."""
    index = folder / _INDEX
    if index.is_file():
        document = _object(index)
        named = document.get("weight_map")
        files = [folder / str(name) for name in sorted(set(named.values()))] if isinstance(named, dict) else []
        if not files or not all(file.is_file() for file in files):
            return indexed_bytes(document)
    else:
        files = sorted(folder.glob("*.safetensors"))
        # Mistral's repositories hold the same tensors twice, once in Mistral's own layout.
        files = [file for file in files if not file.name.startswith("consolidated")] or files
    return sum(_data_bytes(file) for file in files) if files else None


def _data_bytes(file: Path) -> int:
    """Bytes of the tensors in one safetensors file: all that follows the header."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            header = int.from_bytes(stream.read(8), "little")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    if size < 8 or header > MAX_HEADER_BYTES or 8 + header > size:
        raise UsageError(f"{file} is corrupt or incomplete: its header does not match its size")
    return size - 8 - header


def _chat_template(folder: Path) -> bool | None:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    tokenizer = folder / "tokenizer_config.json"
    return has_template(_object(tokenizer)) if tokenizer.is_file() else None

"""Checks of the engine arguments that choose how vLLM reads the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.spec.checks.storage.served import Served, loaded_models, streamed_bucket
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import Path, Problem, quoted

STREAMER, SHARDED_STREAMER = "runai_streamer", "runai_streamer_sharded"

SHARDED = ("sharded_state", SHARDED_STREAMER)
"""Formats with one set of files per tensor parallel size (vllm/model_executor/model_loader/sharded_state_loader.py)."""

ON_CUDA = ("fastsafetensors", "instanttensor")
"""Formats that read into the memory of CUDA devices (weight_utils.py, 0.29)."""

FORMAT, EXTRA, DOWNLOADS = "load_format", "model_loader_extra_config", "download_dir"


def loading_problems(service: LLMService) -> Iterator[Problem]:
    """Arguments of each model of `service` that contradict its storage, or that its loader rejects."""
    streamed = streamed_bucket(service.storage) is not None
    model = service.storage.model
    for one in loaded_models(service):
        if one.engine.kind != "vllm":
            continue  # it has no engine arguments
        at, args = (*one.at, "engine", "args"), one.engine.args
        if model is not None and DOWNLOADS in args:
            yield Problem(
                (*at, DOWNLOADS), "cannot be combined with spec.storage.model, which has the files", "remove it"
            )
        if FORMAT not in args:
            yield from _extra_config(at, STREAMER if streamed else "", args)
            continue
        name = str(args[FORMAT]).lower()  # as vllm/config/load.py
        if streamed and name not in (STREAMER, SHARDED_STREAMER):
            yield Problem(
                (*at, FORMAT),
                f"{quoted(str(args[FORMAT]))} cannot be combined with load: stream, for which it is {STREAMER} or "
                f"{SHARDED_STREAMER}",
                "remove it, or load: copy",
            )
        if name in ON_CUDA and one.accelerator.kind == "cpu":
            yield Problem(
                (*at, FORMAT), f"{name} does not apply to CPU services: it requires CUDA", "load_format: safetensors"
            )
        if name in SHARDED:
            yield from _sharded(one, name)
        yield from _extra_config(at, name, args)


def _sharded(one: Served, name: str) -> Iterator[Problem]:
    at: Path = (*one.at, "parallelism")
    if one.parallelism.tensor is None:
        yield Problem(
            (*at, "tensor"),
            f"required with load_format {name}, whose files are for one tensor parallel size",
            "the size with which the files were saved: spec.parallelism.tensor (--tp)",
        )
    if (one.parallelism.pipeline or 1) > 1:
        yield Problem(
            (*at, "pipeline"), f"must be 1 with load_format {name}, whose files are by tensor parallel rank alone"
        )


def _extra_config(at: Path, name: str, args: Mapping[str, Any]) -> Iterator[Problem]:
    """Keys and values as the loader of format `name` takes them (runai_streamer_loader.py, sharded_state_loader.py)."""
    extra, here = args.get(EXTRA), (*at, EXTRA)
    takes = _TAKES.get(name)
    if extra is None or takes is None:
        return
    if not isinstance(extra, Mapping):
        yield Problem(here, "must be a mapping", f"for example {{{next(iter(takes))}: ...}}")
        return
    for key, value in extra.items():
        if key not in takes:
            close = camel(str(key))
            meant = next((known for known in takes if camel(known) == close), "")
            yield Problem((*here, key), f"is not supported by {name} (supported keys: {', '.join(takes)})", meant)
        elif not _is_valid(key, value):
            yield Problem((*here, key), f"must be {takes[key]}")


def _is_valid(key: str, value: Any) -> bool:
    if key == "distributed":
        return isinstance(value, bool)
    if key == "pattern":
        return isinstance(value, str)
    return isinstance(value, int) and not isinstance(value, bool) and value >= (1 if key == "concurrency" else -1)


_OF_STREAMER = {
    "distributed": "true or false",
    "concurrency": "an integer of at least 1",
    "memory_limit": "an integer of at least -1, in bytes",
}
_OF_SHARDED = {"pattern": "a string"}
_TAKES = {STREAMER: _OF_STREAMER, **dict.fromkeys(SHARDED, _OF_SHARDED)}

"""LoRA adapters that the engine loads when it starts.

Ray Serve LLM 2.60 itself loads adapters from object stores alone, when they are first asked for, as `MODEL:ADAPTER`
(lora_config.dynamic_lora_loading_path), and lists whatever is in the bucket. vLLM's `lora_modules` is a fixed list,
with any id and any directory. Ray passes it on to vLLM's front end, which expects objects that JSON cannot have.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from rayllm_ctl.serving.gateway.reader import fields, items, text

STORES: Final = ("s3://", "gs://", "abfss://", "azure://")
"""What Ray's CloudDownloader copies to the nodes of a replica before its engine starts."""

DOWNLOADER: Final = "ray.llm._internal.common.callbacks.cloud_downloader.CloudDownloader"
DIRECTORY: Final = "/tmp/ray/llm/adapters"  # noqa: S108 - Ray keeps what it downloads below it, too


def with_adapters(args: dict[str, Any], module: Callable[..., Any] | None = None) -> dict[str, Any]:
    """An LLMConfig with the `lora_modules` of its engine_kwargs as vLLM expects them.

    module: makes vLLM's object of a name and a path. Raises SettingsError.
    """
    engine = args.get("engine_kwargs") or {}
    if "lora_modules" not in engine:
        return args
    adapters = items(engine["lora_modules"], "engine_kwargs.lora_modules", _adapter)
    remote = {path: f"{DIRECTORY}/{sha256(path.encode()).hexdigest()[:16]}" for _, path in adapters if _is_remote(path)}
    make = module or _module()
    modules = [make(name=name, path=remote.get(path, path)) for name, path in adapters]
    changed = {**args, "engine_kwargs": {"enable_lora": True, **engine, "lora_modules": modules}}
    if remote:
        changed["callback_config"] = {
            "callback_class": DOWNLOADER,
            "callback_kwargs": {"paths": list(remote.items())},
        }
    return changed


def _adapter(value: object, path: str) -> tuple[str, str]:
    given = fields(value, path, {"name", "path"})
    return text(given.get("name"), f"{path}.name"), text(given.get("path"), f"{path}.path")


def _is_remote(path: str) -> bool:
    return path.startswith(STORES)


def _module() -> Callable[..., Any]:
    # vLLM is there where an engine is built.
    from vllm.entrypoints.openai.models.protocol import LoRAModulePath

    make: Callable[..., Any] = LoRAModulePath
    return make

"""LoRA adapters of a model as vLLM's front end expects them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from rayllm_ctl.serving.adapters import DIRECTORY, with_adapters
from rayllm_ctl.serving.gateway.reader import SettingsError


class Module(NamedTuple):
    """Stands for vLLM's LoRAModulePath."""

    name: str
    path: str


def changed(*adapters: object, **engine: object) -> dict[str, Any]:
    args = {"engine_kwargs": {**engine, "lora_modules": list(adapters)}, "log_engine_metrics": True}
    return with_adapters(args, Module)


def test_local_adapters_keep_their_path() -> None:
    result = changed({"name": "legal", "path": "/adapters/legal"}, max_lora_rank=32)
    assert result == {
        "engine_kwargs": {
            "enable_lora": True,
            "max_lora_rank": 32,
            "lora_modules": [Module("legal", "/adapters/legal")],
        },
        "log_engine_metrics": True,
    }


def test_remote_adapters_are_copied_before_the_engine_starts() -> None:
    result = changed(
        {"name": "a", "path": "s3://bucket/a"},
        {"name": "b", "path": "gs://bucket/b"},
        {"name": "c", "path": "/adapters/c"},
    )
    modules = result["engine_kwargs"]["lora_modules"]
    copies = dict(result["callback_config"]["callback_kwargs"]["paths"])
    assert copies == {"s3://bucket/a": modules[0].path, "gs://bucket/b": modules[1].path}
    assert len({module.path for module in modules}) == 3
    assert all(path.startswith(DIRECTORY + "/") for path in copies.values())
    assert modules[2].path == "/adapters/c"


def test_a_model_without_adapters_is_left_alone() -> None:
    args = {"model_loading_config": {"model_id": "tiny"}}
    assert with_adapters(args) is args


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ({"name": "a"}, r"engine_kwargs\.lora_modules\[0\]\.path: must be a string, not null"),
        ({"name": "a", "path": "/a", "rank": 8}, r"lora_modules\[0\]\.rank: unknown field"),
        ("a=/a", r"lora_modules\[0\]: must be a mapping, not a string"),
    ],
)
def test_invalid_adapters(adapter: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        changed(adapter)

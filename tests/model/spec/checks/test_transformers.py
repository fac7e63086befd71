"""What engine kind transformers rejects, and what kind vllm rejects of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import (
    Accelerator,
    Adapter,
    Engine,
    LLMService,
    Model,
    ModelEngine,
    ModelEntry,
    Parallelism,
)
from rayllm_ctl.model.spec.transformers import TransformersOptions
from rayllm_ctl.specfile import load
from rayllm_ctl.specfile.write import to_document

OPTIONS = TransformersOptions(2, "10Gi", "30Gi", trust_remote_code=True)
SERVICE = LLMService("one", Model("org/A"), engine=Engine(kind="transformers", transformers=OPTIONS))


def test_a_service_with_every_option_is_valid_and_written_as_it_was_read() -> None:
    assert validate(SERVICE) == []
    text = json.dumps(to_document(SERVICE))
    assert '"maxMemoryPerGPU": "10Gi"' in text
    assert load(text, source="spec") == SERVICE


@pytest.mark.parametrize(
    ("engine", "others", "where", "instead"),
    [
        ({"kv_cache_dtype": "fp8"}, {}, "spec.engine.kvCacheDtype", "dtype"),
        ({"gpu_memory_utilization": 0.9}, {}, "spec.engine.gpuMemoryUtilization", "maxMemoryPerGPU"),
        ({"max_num_batched_tokens": 99}, {}, "spec.engine.maxNumBatchedTokens", "maxNumSeqs"),
        ({"args": {"seed": 1}}, {}, "spec.engine.args", "spec.engine.transformers"),
        ({"vllm_version": "0.29.0"}, {}, "spec.engine.vllmVersion", "rayVersion"),
        ({"quantization": "fp8"}, {}, "spec.engine.quantization", "bitsandbytes-8bit"),
        ({}, {"parallelism": Parallelism(tensor=2)}, "spec.parallelism.tensor", "gpus: N"),
        ({}, {"parallelism": Parallelism(pipeline=2)}, "spec.parallelism.pipeline", "gpus: N"),
        ({}, {"parallelism": Parallelism(2, across_nodes=True)}, "spec.parallelism.acrossNodes", "gpus: N"),
        ({}, {"model": Model("a", adapters=(Adapter("b", "/b"),))}, "spec.model.adapters", "vllm"),
        ({}, {"mode": "raycluster"}, "spec.engine.kind", "--kind rayservice"),
        ({"transformers": TransformersOptions(gpus=9)}, {}, "spec.engine.transformers.gpus", ""),
        ({"transformers": TransformersOptions(gpus=0)}, {}, "spec.engine.transformers.gpus", ""),
        (
            {"transformers": TransformersOptions(max_memory_per_gpu="ten")},
            {},
            "spec.engine.transformers.maxMemoryPerGPU",
            "",
        ),
        ({"transformers": TransformersOptions(cpu_memory="10")}, {}, "spec.engine.transformers.cpuMemory", "10Gi"),
        (
            {"transformers": TransformersOptions(cpu_memory="9Gi"), "quantization": "bitsandbytes-4bit"},
            {},
            "spec.engine.transformers.cpuMemory",
            "remove one",
        ),
        (
            {"transformers": TransformersOptions(gpus=1)},
            {"accelerator": Accelerator("cpu")},
            "spec.engine.transformers.gpus",
            "remove",
        ),
        (
            {"quantization": "bitsandbytes-8bit"},
            {"accelerator": Accelerator("cpu")},
            "spec.engine.quantization",
            "remove",
        ),
        ({"kind": "vllm", "transformers": TransformersOptions()}, {}, "spec.engine.transformers", "--engine"),
        ({"kind": "vllm", "quantization": "bitsandbytes-8bit"}, {}, "spec.engine.quantization", "--engine"),
    ],
)
def test_what_is_rejected_and_what_to_write_instead(
    engine: dict[str, Any], others: dict[str, Any], where: str, instead: str
) -> None:
    settings: dict[str, Any] = {"kind": "transformers", **engine}
    found = validate(LLMService("one", **{"model": Model("org/A"), **others}, engine=Engine(**settings)))
    hints = {problem.where: problem.hint for problem in found}
    assert where in hints
    assert instead in hints[where]


def test_a_model_of_several_is_named_by_its_place_and_may_stand_beside_vllm() -> None:
    entry = ModelEntry("org/B", engine=ModelEngine(kind="transformers", kv_cache_dtype="fp8"))
    service = LLMService("two", models=(ModelEntry("org/A"), entry), engine=Engine(vllm_version="0.29.0"))
    assert [problem.where for problem in validate(service)] == ["spec.models[1].engine.kvCacheDtype"]

"""The engine catalog: what was read from vLLM's wheels, and which version answers for which."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.catalog import data, engines, gpus
from rayllm_ctl.catalog.releases import DEFAULT
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import Engine, LLMService, Model

ALL = [engines.engine(version) for version in engines.engine_versions()]


def test_versions_are_in_order_and_every_minor_release_is_there() -> None:
    assert [facts.release for facts in ALL] == sorted(facts.release for facts in ALL)
    assert {facts.release[:2] for facts in ALL} == {(0, minor) for minor in range(6, 34)}
    assert engines.engine().version == DEFAULT.vllm == "0.29.0"


def test_the_hint_for_a_version_without_facts_can_be_typed() -> None:
    with pytest.raises(UsageError, match=r"nothing is known of vLLM 9\.9\.9, only of 0\.6\.4 to ") as refused:
        engines.engine("9.9.9")
    assert refused.value.hints == (f"--vllm-version {ALL[-1].version}",)


@pytest.mark.parametrize("facts", ALL, ids=lambda facts: facts.version)
def test_facts_can_be_true(facts: EngineFacts) -> None:
    assert facts.note == ""
    assert facts.gpu_memory_utilization == (0.9 if facts.release < (0, 20, 0) else 0.92)
    assert facts.cuda_graphs_in_budget == (facts.release >= (0, 20, 0))
    assert facts.chunked_prefill == (facts.release >= (0, 8, 0))
    assert {"model", "tensor_parallel_size", "max_model_len", "enable_prefix_caching"} <= facts.arguments.keys()
    assert {
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "MixtralForCausalLM",
        "DeepseekV2ForCausalLM",
    } <= facts.architectures
    assert facts.no_pipeline < facts.architectures
    assert "LlamaForCausalLM" not in facts.no_pipeline
    assert not facts.architectures & set(facts.removed)
    assert facts.quantization["awq"] == (7, 5)
    assert facts.quantization["compressed-tensors"] == (7, 0)
    assert {"auto", "fp8"} <= set(facts.kv_cache_dtypes)


@pytest.mark.parametrize(
    ("version", "gpu", "expected"),
    [
        ("0.29.0", "H100-80GB", (8192, 1024)),
        ("0.29.0", "A100-80GB", (2048, 256)),
        ("0.29.0", "L4", (2048, 256)),
        ("0.29.0", "B200-180GB", (16384, 1024)),
        ("0.27.0", "B200-180GB", (8192, 1024)),
        ("0.8.5", "A100-80GB", (8192, 1024)),
        ("0.6.4", "H100-80GB", (2048, 256)),
        ("0.29.0", "MI300X", (16384, 1024)),
    ],
)
def test_batch_defaults_by_gpu_and_version(version: str, gpu: str, expected: tuple[int, int]) -> None:
    assert engines.engine(version).batch_defaults_for(gpus.find_gpu(gpu)) == expected


def test_what_came_and_went() -> None:
    assert "Qwen3NextForCausalLM" not in engines.engine("0.10.1").architectures
    assert "Qwen3NextForCausalLM" in engines.engine("0.10.2").architectures
    assert engines.engine("0.29.0").removed["BaichuanForCausalLM"] == "0.23.0"
    assert "bitsandbytes" in engines.engine("0.19.0").quantization
    assert "bitsandbytes" not in engines.engine("0.29.0").quantization
    assert engines.engine("0.11.0").quantization["fp8"] == (8, 0)
    assert engines.engine("0.29.0").quantization["fp8"] == (7, 5)


@pytest.mark.parametrize(
    ("version", "moe", "hybrid", "quantized", "expected"),
    [
        ("0.21.0", False, False, False, False),
        ("0.25.0", False, False, False, True),
        ("0.25.0", True, False, False, False),
        ("0.25.0", False, True, False, False),
        ("0.29.0", True, True, True, True),
    ],
)
def test_the_runner(version: str, moe: bool, hybrid: bool, quantized: bool, expected: bool) -> None:
    facts = engines.engine(version)
    assert facts.uses_second_runner("SomeForCausalLM", moe=moe, hybrid=hybrid, quantized=quantized) is expected


def test_listed_architectures_take_the_second_runner_earlier() -> None:
    listed = sorted(engines.engine("0.22.0").second_runner_architectures)[0]
    facts = engines.engine("0.22.0")
    assert facts.uses_second_runner(listed, moe=False, hybrid=False, quantized=False)
    assert not facts.uses_second_runner(listed, moe=False, hybrid=False, quantized=True)
    assert not facts.uses_second_runner("SomeForCausalLM", moe=False, hybrid=False, quantized=False)


@pytest.mark.parametrize(
    ("asked", "answers", "note"),
    [
        ("0.29.0", "0.29.0", ""),
        ("v0.19.0", "0.19.0", ""),
        ("0.29", "0.29.0", ""),
        ("0.10.1.1", "0.10.1.1", ""),
        ("0.20.0.post1", "0.20.0", ""),
        ("0.29.7", "0.29.0", "vLLM 0.29.7 is not known: planned as 0.29.0"),
        ("0.99.0", "0.33.0", "vLLM 0.99.0 is newer than the newest known, 0.33.0: planned as 0.33.0"),
    ],
)
def test_which_version_answers(asked: str, answers: str, note: str) -> None:
    facts = engines.engine(asked)
    assert (facts.version, facts.note) == (answers, note)


@pytest.mark.parametrize("asked", ["0.5.5", "1.0", "2.0.0", "latest", "", "0", "0.29.x"])
def test_a_version_that_nobody_knows_is_a_usage_error(asked: str) -> None:
    with pytest.raises(UsageError) as caught:
        engines.engine(asked or " ")
    assert caught.value.hints


def test_differences_add_up_to_whole_versions() -> None:
    whole: dict[str, Any] = {}
    for version, changes in json.loads(data.read_data("engines.json")).items():
        whole = engines.changed(whole, changes)
        assert whole["arguments"] == engines.engine(version).arguments


def test_types_of_arguments() -> None:
    arguments = engines.engine("0.29.0").arguments
    expected = {"seed": "int", "cpu_offload_gb": "float", "enable_lora": "bool", "block_size": "int|null"}
    assert {name: arguments[name] for name in expected} == expected
    assert arguments["compilation_config"] == ""
    assert engines.engine("0.9.2").arguments["seed"] == "int|null"


def test_a_version_that_is_known_may_be_asked_for() -> None:
    for version in (*engines.engine_versions(), "0.29.0+cpu", "0.29.0rc2", "0.29.0.post1", "0.29.1rc1.dev3+g1a2b3c"):
        service = LLMService("q", Model("m"), engine=Engine(vllm_version=version))
        assert validate(service) == [], version
        assert engines.engine(version).version

"""The model catalog: every model can be planned, has a source, and is found by its name."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.catalog.summary import summarize
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.workflows.plan.catalog import list_models

MUST_BE_THERE = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3-32B-FP8",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-R1",
    "deepseek-ai/DeepSeek-V3.2",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
    "google/gemma-3-27b-it",
    "google/gemma-4-26B-A4B",
    "microsoft/phi-4",
    "moonshotai/Kimi-K2-Instruct",
    "zai-org/GLM-4.5",
)

PUBLISHED = {
    "Qwen/Qwen3-0.6B": 596_049_920,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.1-70B-Instruct": 70_553_706_496,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "ai21labs/AI21-Jamba-Mini-1.5": 51_570_323_328,
    "allenai/OLMoE-1B-7B-0924-Instruct": 6_919_161_856,
    "moonshotai/Moonlight-16B-A3B-Instruct": 15_960_111_936,
    "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400,
}
"""Parameters as the hub counts them in the checkpoints."""

ROUNDED = {
    # parameter_count in vllm-project/recipes@8959cf641
    "google/gemma-4-31B-it": 31,
    "inclusionAI/Ling-3.0-flash": 124,
    "JetBrains/Mellum2-12B-A2.5B-Instruct": 12,
    "meta-models/Muse-Glimmer-30B": 29.6,
    "moonshotai/Kimi-K2-Thinking": 1000,
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": 48,
    "nvidia/MiniMax-M3-NVFP4": 427,
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": 120,
    "PaddlePaddle/PaddleOCR-VL": 0.9,
    "poolside/Laguna-S-2.1": 118,
    "poolside/Laguna-XS-2.1": 33,
    "stepfun-ai/Step-3.5-Flash": 196,
    "tencent/HunyuanOCR": 1,
    "tencent/Hy3-preview": 295,
    "thinkingmachines/Inkling": 975,
    "zai-org/GLM-4.6V": 107,
    "zai-org/Glyph": 10,
    # stated elsewhere
    "baidu/ERNIE-4.5-VL-28B-A3B-PT": 29,  # the hub, of its -Paddle twin
    "deepseek-ai/DeepSeek-OCR": 3.336,  # huggingface.co/SamMikaelson/deepseek-ocr-qvlm-4bit
    "deepseek-ai/DeepSeek-OCR-2": 3.4,  # huggingface.co/cstr/deepseek-ocr2-crispembed-GGUF
    "LiquidAI/LFM2.5-1.2B-Instruct": 1.17,  # the card of LFM2-1.2B, whose sizes it has
    "mistralai/Ministral-3-3B-Reasoning-2512": 3.8,  # NVIDIA-NeMo/Megatron-Bridge@067f987df
    "mistralai/Ministral-3-8B-Reasoning-2512": 8.9,  # NVIDIA-NeMo/Megatron-Bridge@067f987df
    "mistralai/Ministral-3-14B-Reasoning-2512": 13.9,  # NVIDIA-NeMo/Megatron-Bridge@067f987df
    "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16": 3.97,  # its card
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4": 31.6,  # jakemanger/whatmodel
    "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16": 13,  # the hub; its card says 12.6
    "OpenGVLab/InternVL3_5-8B": 8.5,  # mixpeek.com/model/OpenGVLab/InternVL3_5-8B
    "Qwen/Qwen3.5-0.8B": 0.85,  # 0.75 without the 0.1 of vision: huggingface.co/Larxel/Qwen3.5-0.75B
    "Qwen/Qwen3.5-9B": 9.41,  # 8.95 of text (ollama.com/isotnek/qwen3.5), its encoder as counted
    "zai-org/GLM-ASR-Nano-2512": 2.26,  # huggingface.co/aoiandroid/glm-asr-nano-2512-coreml
    "zai-org/glm-4-9b-hf": 9.4,  # the size of its files, 18.81 GB in bfloat16
}
"""Billions of parameters as published, where one has to count them from several sources."""

BILLIONS = {"Qwen/Qwen3.5-2B": 2, "Qwen/Qwen3.5-4B": 5}
"""Those of which only the whole number that the hub shows was found."""


@cache
def facts_of(name: str) -> ModelFacts:
    model = models.find_model(name)
    assert model is not None, name
    return read_config(model.config)


WHOLE = [model for model in models.models() if model.same_as is None]


def test_there_are_enough_of_many_kinds() -> None:
    assert len(WHOLE) >= 150
    assert len({facts_of(model.id).architecture for model in WHOLE}) >= 45
    assert [name for name in MUST_BE_THERE if models.find_model(name) is None] == []


def test_every_model_can_be_read_and_is_as_small_as_it_can_be() -> None:
    for model in WHOLE:
        facts = facts_of(model.id)
        assert facts.parameters > 1e8, model.id
        assert facts.max_model_len >= 1024, model.id
        assert facts.layers, model.id
        assert compact(model.config) == model.config, model.id


def test_the_stored_summary_is_that_of_the_config() -> None:
    stale = [model.id for model in WHOLE if model.summary != summarize(facts_of(model.id))]
    assert stale == [], "python scripts/catalog_models.py"


def test_a_list_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all configs takes several times as long as the rest of the command."""
    monkeypatch.delattr("rayllm_ctl.workflows.plan.catalog.read_config")
    listed = {model.id: model for model in list_models()}
    assert listed.keys() == set(models.names())
    assert listed["deepseek-ai/DeepSeek-R1"].parameters == pytest.approx(671e9, rel=0.02)


def test_of_a_checkpoint_in_mixed_precision_one_expert_of_each_layer_is_kept() -> None:
    mixed = models.find_model("nvidia/MiniMax-M3-NVFP4")
    assert mixed is not None
    text = json.dumps(mixed.config)
    assert ".experts.0." in text
    assert ".experts.1." not in text
    experts = [layer.experts[0] for layer in facts_of(mixed.id).layers if layer.experts]
    assert {one.scheme.bits for one in experts if one.scheme} == {4}


@pytest.mark.parametrize("name", ROUNDED)
def test_sizes_from_several_sources_make_the_published_number_of_parameters(name: str) -> None:
    assert facts_of(name).parameters / 1e9 == pytest.approx(ROUNDED[name], rel=0.03)


@pytest.mark.parametrize("name", BILLIONS)
def test_sizes_make_the_billions_that_the_hub_shows(name: str) -> None:
    assert round(facts_of(name).parameters / 1e9) == BILLIONS[name]


def test_every_model_has_a_source() -> None:
    for model in models.models():
        assert re.search(r"@[0-9a-f.]{5,}:\S+|public hyper-parameters|^\S+/\S+|same architecture", model.source), (
            model.id
        )
        assert not re.search(r"/tmp|/work|/root|this folder", model.source), model.id


def test_names_that_promise_a_quantization_have_one() -> None:
    for model in models.models():
        facts = facts_of(model.id)
        if re.search(r"FP8|NVFP4|AWQ|GPTQ|w8a8|w4a16|gpt-oss", model.id):
            assert facts.quantization is not None, model.id
        if re.search(r"Qwen2\.5-\w+-Instruct$|Llama-3\.\d-\w+$|-BF16$", model.id):
            assert facts.quantization is None, model.id


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_parameters_are_those_of_the_checkpoint(name: str, parameters: int) -> None:
    assert facts_of(name).parameters == pytest.approx(parameters, rel=2e-4)


def test_names_are_unique_sorted_and_found_in_any_case() -> None:
    names = models.names()
    assert list(names) == sorted(names, key=str.lower)
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        for written in (name, name.upper(), name.lower()):
            model = models.find_model(written)
            assert model is not None
            assert model.id == name


def test_another_name_of_a_model_has_its_config_and_its_own_source() -> None:
    base = models.find_model("meta-llama/Llama-3.3-70B-Instruct")
    other = models.find_model("meta-llama/Llama-3.1-70B-Instruct")
    assert base is not None
    assert other is not None
    assert other.same_as == base.id
    assert other.config == base.config
    assert other.source != base.source


@pytest.mark.parametrize(
    "name", ["", "x", "Qwen/Qwen3", '"', "\n", "Qwen/Qwen3-32B\n", "a" * 10_000, "Qwen/Qwen3-32B,", "zzz", "\udcff"]
)
def test_what_is_no_name_is_not_found(name: str) -> None:
    assert models.find_model(name) is None


def test_the_nearest_names() -> None:
    assert models.nearest_models("qwen3-32b")[0] == "Qwen/Qwen3-32B"
    assert models.nearest_models("meta/llama-3.1-8b-instrct")[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert models.nearest_models("nothing-like-it-at-all") == ()


@pytest.mark.parametrize(
    ("name", "gated"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", True),
        ("META-LLAMA/llama-3.1-8b", True),
        ("google/gemma-3-27b-it", True),
        ("google/gemma-4-26B-A4B", False),
        ("CohereLabs/c4ai-command-r-plus", True),
        ("bigcode/starcoder", True),
        ("bigcode/starcoder2-7b", False),
        ("Qwen/Qwen3-32B", False),
        ("NousResearch/Llama-2-7b-hf", False),
    ],
)
def test_models_that_need_a_token_are_known(name: str, gated: bool) -> None:
    assert models.is_gated(name) is gated

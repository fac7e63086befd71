"""What vLLM itself says, to hold the memory planner against."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import MemoryEstimate, estimate

_QUANTIZED = ("quantization_config", "compression_config", "hf_quant_config")


@cache
def facts_of(name: str, *, plain: bool = False) -> ModelFacts:
    """A model of the catalog; `plain`: without its quantization."""
    model = models.find_model(name)
    assert model is not None, name
    return read_config(without_quantization(dict(model.config)) if plain else model.config)


def without_quantization(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in _QUANTIZED}
    return {key: without_quantization(dict(v)) if isinstance(v, dict) else v for key, v in kept.items()}


def estimated(
    facts: ModelFacts | str,
    gpu: str = "H100-80GB",
    version: str = "0.19.0",
    *,
    length: int = 8192,
    tensor: int = 1,
    pipeline: int = 1,
    tokens: int | None = None,
    seqs: int | None = None,
    utilization: float = 0.9,
    kv: str = "auto",
    dtype: str = "bfloat16",
    quantization: str | None = None,
    block: int | None = None,
    eager: bool = False,
    env: Mapping[str, str] | None = None,
    **args: Any,
) -> MemoryEstimate:
    """An estimate with vLLM's own batch sizes for that GPU unless said."""
    rules, card = engine(version), find_gpu(gpu)
    default_tokens, default_seqs = rules.batch_defaults_for(card)
    if block:
        args["block_size"] = block
    if eager:
        args["enforce_eager"] = True
    settings = ResolvedSettings(
        max_model_len=length,
        max_num_seqs=seqs or default_seqs,
        max_num_batched_tokens=tokens or default_tokens,
        gpu_memory_utilization=utilization,
        tensor=tensor,
        pipeline=pipeline,
        dtype=dtype,
        quantization=quantization,
        kv_cache_dtype=kv,
        args=args,
        env=env or {},
    )
    return estimate(facts_of(facts) if isinstance(facts, str) else facts, card, rules, settings)


PARAMETERS = (
    ("meta-llama/Meta-Llama-3.1-8B", 1, 16060522496),
    ("meta-llama/Meta-Llama-3.1-8B", 8, 2008031232),
    ("Qwen/Qwen3-0.6B", 1, 1192099840),
    ("Qwen/Qwen2.5-72B", 8, 18178859008),
    ("Qwen/Qwen3-30B-A3B", 1, 61064245248),
    ("Qwen/Qwen3-30B-A3B", 8, 7680585728),
    ("mistralai/Mixtral-8x7B-v0.1", 2, 46704107520),
    ("deepseek-ai/DeepSeek-V3", 8, 169560743936),
    ("moonshotai/Kimi-K2-Instruct", 8, 258508988416),
    ("moonshotai/Kimi-VL-A3B-Instruct", 1, 32815315424),
    ("moonshotai/Kimi-VL-A3B-Instruct", 8, 4227308956),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2, 79725031808),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 8, 20026091360),
    ("Qwen/Qwen3.5-27B", 1, 54713461728),
    ("Qwen/Qwen3.5-27B", 8, 6890389724),
    ("google/gemma-3-12b-it", 1, 24374650080),
    ("google/gemma-3-12b-it", 8, 3065690268),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8, 27065668736),
    ("openai/gpt-oss-20b", 2, 20919391872),
    ("microsoft/phi-4", 2, 14659921920),
    ("Qwen/Qwen2.5-VL-7B-Instruct", 2, 8294044928),
    ("XiaomiMiMo/MiMo-V2-Flash", 8, 77392043632),
    ("nvidia/Qwen3.5-397B-A17B-NVFP4", 8, 99477379980),
)
"""(model, TP, bytes of a rank's parameters without quantization): vLLM 0.29.0's own objects, made on torch's meta
device."""

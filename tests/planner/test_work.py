"""Throughput and the check on CPUs count bytes as the memory planner does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts, Quantization
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory import cpu_request_bytes, whole_weights
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.facts import dense
from tests.planner.known import estimated, facts_of


def declared(method: str) -> Quantization:
    return Quantization(method, "fp8", 8, kv_cache_dtype="fp8")


def test_a_checkpoint_that_declares_an_fp8_cache_is_read_with_one_byte_per_element() -> None:
    """In memory and in throughput alike; modelopt's declaration counts since 0.14."""
    plain, fp8 = dense(), replace(dense(), quantization=declared("compressed-tensors"))
    modelopt = replace(dense(), quantization=declared("modelopt"))

    def read(facts: ModelFacts, release: tuple[int, int, int]) -> float:
        work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None, release=release)
        return work.cache_bytes(1000, 1)

    assert read(fp8, (0, 29, 0)) == read(plain, (0, 29, 0)) / 2
    assert read(modelopt, (0, 13, 0)) == read(plain, (0, 13, 0))
    assert read(modelopt, (0, 14, 0)) == read(plain, (0, 14, 0)) / 2
    kept = estimated(fp8, version="0.29.0").bytes_per_block, estimated(plain, version="0.29.0").bytes_per_block
    assert kept[0] == kept[1] / 2


@pytest.mark.parametrize(
    "name", ["google/gemma-3-12b-it", "deepseek-ai/DeepSeek-V2-Lite-Chat", "Qwen/Qwen3-Next-80B-A3B-Instruct"]
)
def test_a_step_reads_what_the_cache_holds(name: str) -> None:
    """One request of 4,096 tokens: what a step reads of its cache is what its blocks hold, but for their rounding, the
    tokens in flight and a state's writing back."""
    facts = facts_of(name)
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    settings = ResolvedSettings(4096, 1, 1, 0.9, dtype="bfloat16", args={"enable_prefix_caching": False})
    held = cpu_request_bytes(facts, (0, 32, 0), settings)
    assert 0.4 * held < work.cache_bytes(4096, 1) < 1.05 * held + 2 * 0.2 * GIB


def test_weights_that_a_step_reads_are_those_that_memory_counts() -> None:
    facts = dense()
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    embedding = facts.vocab_size * facts.hidden_size * 2
    assert work.held_bytes + embedding == pytest.approx(whole_weights(facts, "bfloat16"), rel=1e-4)


def test_a_request_on_cpus_takes_whole_blocks_of_128_tokens() -> None:
    facts = dense()
    settings = ResolvedSettings(129, 1, 2048, 0.9, dtype="bfloat16")
    token = 32 * 2 * 8 * 128 * 2
    assert cpu_request_bytes(facts, (0, 29, 0), settings) == 256 * token
    assert cpu_request_bytes(facts, (0, 29, 0), replace(settings, tensor=2)) == 128 * token

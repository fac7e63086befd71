from __future__ import annotations

import pytest

from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.throughput import Speed, at_load, extrapolations, speed
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.facts import dense, moe
from tests.planner.gpus import H100, L4

LOAD = Workload(1024, 256, None, None, None, None, stated=False)


def rate(tensor: int = 1, pipeline: int = 1, kv: str = "auto") -> Speed:
    facts = dense()
    return speed(
        facts,
        model_work(facts, dtype="bfloat16", kv_cache_dtype=kv, quantization=None),
        H100,
        tensor,
        pipeline,
    )


def test_one_request_is_bound_by_reading_the_weights() -> None:
    """Llama-3.1-8B: 15.0 GB without the embedding table over 80 % of 3.35 TB/s, and 1 ms, make 6.6 ms a token."""
    assert rate().step(1, 1000) == pytest.approx(6.6e-3, rel=0.03)


def test_an_expert_is_read_only_when_a_token_chooses_it() -> None:
    facts = moe()
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    each = 3 * 2048 * 768 * 2.0
    assert work.experts[0].bytes_read(1) == pytest.approx(48 * 8 * each)
    assert work.experts[0].bytes_read(1000) == pytest.approx(48 * 128 * each, rel=1e-6)


def test_cache_bytes_follow_heads_ranks_and_dtype() -> None:
    wide = model_work(dense(), dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    narrow = model_work(dense(), dtype="bfloat16", kv_cache_dtype="fp8", quantization=None)
    assert wide.cache_bytes(1000, 1) == 1000 * 32 * 2 * 8 * 128 * 2
    assert narrow.cache_bytes(1000, 1) == wide.cache_bytes(1000, 1) / 2
    assert wide.cache_bytes(1000, 16) == wide.cache_bytes(1000, 1) / 8


def test_more_requests_give_more_tokens_but_each_later() -> None:
    one, many = at_load(rate(), LOAD, 1), at_load(rate(), LOAD, 64)
    assert many.output_tokens_per_second.typical > 5 * one.output_tokens_per_second.typical
    assert many.tpot.typical > one.tpot.typical
    assert many.ttft.typical > one.ttft.typical


def test_bands_are_in_order() -> None:
    for batch in (1, 7, 200):
        figures = at_load(rate(), LOAD, batch)
        for band in (figures.ttft, figures.tpot, figures.output_tokens_per_second, figures.requests_per_second):
            assert 0 < band.low <= band.typical <= band.high


def test_tensor_parallelism_shortens_a_step_by_less_than_its_gpus() -> None:
    one, four = rate(1).step(8, 1000), rate(4).step(8, 1000)
    assert one / 4 < four < one


def test_each_layer_costs_two_all_reduces() -> None:
    """32 layers x 2 x 12 us on top of a quarter of the weights at 80 % of the bandwidth, and 1 ms."""
    weights = 15.0e9 / 4 / (0.8 * 3.35e12)
    assert rate(4).step(1, 1) == pytest.approx(weights + 64 * 12e-6 + 1e-3, rel=0.02)


def test_pipeline_stages_do_not_shorten_one_request() -> None:
    assert rate(1, 2).step(1, 1000) >= rate(1, 1).step(1, 1000)


def test_what_was_not_measured_is_named() -> None:
    assert extrapolations(dense(), rate()) == ()
    work = model_work(moe(), dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    found = extrapolations(moe(), speed(moe(), work, L4, 2, 2))
    assert [line.split(":")[0] for line in found] == ["MoE", "TP over PCIe", "pipeline parallelism"]

"""The speed of a replica: what its steps and prompts take, and the figures that follow from them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner.request import Workload
from rayllm_ctl.planner.speed.coefficients import DENSE, FITTED, MOE, UNCERTAIN, Coefficients
from rayllm_ctl.planner.speed.figures import at_load, in_flight, likely
from rayllm_ctl.planner.speed.replica import Guesses, ReplicaSpeed
from rayllm_ctl.planner.speed.throughput import extrapolations
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.facts import dense, moe
from tests.planner.gpus import H100, L4
from tests.planner.known import facts_of

LOAD = Workload(1024, 256, None, None, None, None, stated=False)
NOTHING = Coefficients(**dict.fromkeys((field.name for field in fields(Coefficients)), 0.0))
"""No cost for kernels, requests and exchanges; shares have to be set."""


def rate(
    tensor: int = 1, pipeline: int = 1, *, facts: ModelFacts | None = None, gpu: GPU = H100, chunk: int = 8192
) -> ReplicaSpeed:
    work = model_work(facts or dense(), dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    return ReplicaSpeed(work, gpu, tensor, pipeline, chunk)


def with_shares(**others: float) -> Coefficients:
    shares = dict.fromkeys(
        ("bandwidth", "step_compute", "step_compute_moe", "prompt_compute", "prompt_compute_moe", "link"), 1.0
    )
    return replace(NOTHING, **shares, **others)


def test_a_step_reads_the_weights_and_multiplies_by_them() -> None:
    """Llama-3.1-8B on an H100: 15.0 GB without the embedding table over 3.35 TB/s, and 15.0 GFLOP of 989 TFLOP/s."""
    alone = replace(rate(), coefficients=with_shares())
    assert alone.step(1, 0) == pytest.approx(15.0e9 / 3.35e12 + 15.0e9 / 989e12, rel=0.01)
    assert alone.step(64, 0) - alone.step(1, 0) == pytest.approx(63 * 15.0e9 / 989e12, rel=0.01)


def test_a_step_costs_time_for_each_layer() -> None:
    longer = replace(rate(), coefficients=with_shares(layer=50e-6)).step(1, 0)
    assert longer - replace(rate(), coefficients=with_shares()).step(1, 0) == pytest.approx(32 * 50e-6)


def test_a_layer_with_experts_costs_more_but_on_blackwell() -> None:
    def extra(gpu: GPU) -> float:
        replica = rate(facts=moe(), gpu=gpu)
        dear, free = (replace(replica, coefficients=with_shares(expert_layer=each)) for each in (40e-6, 0.0))
        return dear.step(1, 0) - free.step(1, 0)

    assert extra(H100) == pytest.approx(48 * 40e-6)
    assert extra(replace(H100, compute_capability=(10, 0))) == 0


def test_each_further_gpu_without_nvlink_costs_time_in_each_layer() -> None:
    pcie = replace(H100, interconnect="pcie")
    two, eight = (
        replace(rate(tensor, gpu=pcie), coefficients=with_shares(pcie_rank=30e-6)).step(1, 0)
        - replace(rate(tensor), coefficients=with_shares()).step(1, 0)
        for tensor in (2, 8)
    )
    assert two == pytest.approx(32 * 30e-6)
    assert eight == pytest.approx(7 * 32 * 30e-6)


def test_the_engine_before_0_8_takes_time_for_each_request_of_a_step() -> None:
    old = replace(rate(), old_engine=True)
    for batch in (1, 64):
        longer = old.step(batch, 1000) - rate().step(batch, 1000)
        assert longer == pytest.approx(FITTED.old_step + FITTED.old_request * batch)


def test_an_expert_is_read_only_when_a_token_chooses_it() -> None:
    work = rate(facts=moe()).work
    each = 3 * 2048 * 768 * 2.0
    assert work.experts[0].bytes_read(1) == pytest.approx(48 * 8 * each)
    assert work.experts[0].bytes_read(1000) == pytest.approx(48 * 128 * each, rel=1e-6)


def test_cache_bytes_follow_heads_ranks_and_dtype() -> None:
    wide = rate().work
    narrow = model_work(dense(), dtype="bfloat16", kv_cache_dtype="fp8", quantization=None)
    assert wide.cache_bytes(1000, 1) == 1000 * 32 * 2 * 8 * 128 * 2
    assert narrow.cache_bytes(1000, 1) == wide.cache_bytes(1000, 1) / 2
    assert wide.cache_bytes(1000, 16) == wide.cache_bytes(1000, 1) / 8


def test_weights_are_multiplied_in_the_type_of_their_scheme() -> None:
    """gpt-oss stores its experts in 4 bits and vLLM multiplies them in 16; online fp8 does not touch the head."""
    stored = model_work(facts_of("openai/gpt-oss-20b"), dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    assert dict(stored.operations).keys() == {"wide"}
    plain, online = (
        model_work(dense(), dtype="bfloat16", kv_cache_dtype="auto", quantization=quantization)
        for quantization in (None, "fp8")
    )
    assert dict(plain.operations).keys() == {"wide"}
    assert dict(online.operations)["fp8"] == pytest.approx(dict(plain.operations)["wide"], rel=0.01)
    assert online.head_flops == plain.head_flops


def test_more_requests_give_more_tokens_but_each_later() -> None:
    one, many = at_load(rate(), LOAD, 1), at_load(rate(), LOAD, 64)
    assert many.output_tokens_per_second.typical > 5 * one.output_tokens_per_second.typical
    assert many.tpot.typical > one.tpot.typical
    assert many.ttft.typical > one.ttft.typical


def test_a_prompt_rides_in_as_many_steps_as_it_has_chunks() -> None:
    whole, divided = likely(rate(), LOAD, 1), likely(rate(chunk=256), LOAD, 1)
    assert (rate(chunk=256).chunks(1024, 1), rate(chunk=256).chunks(1024, 8)) == (
        4,
        5,
    )  # eight take eight of the tokens
    step = rate().step(1, 1152) + rate().prompt_overhead()
    assert divided.ttft - whole.ttft == pytest.approx(3 * step)


def test_requests_in_flight_take_what_little_s_law_says() -> None:
    """The time of one is those in flight over the rate, also where there is nearly nothing but prompts, or no prompt;
    none is faster than a request that is alone."""
    for given, answered in ((1024, 256), (4096, 1), (1, 1), (1, 1024)):
        load = replace(LOAD, input_tokens=given, output_tokens=answered)
        alone = likely(rate(), load, 1)
        for batch in (1, 2, 8, 64, 512):
            found = likely(rate(), load, batch)
            assert found.ttft + answered * found.tpot == pytest.approx(batch / found.requests_per_second)
            assert found.ttft >= alone.ttft * (1 - 1e-9)
            assert alone.tpot * (1 - 1e-9) <= found.tpot < 1


def test_answers_of_a_token_wait_for_the_prompts_of_others() -> None:
    """97 prompts of 4,096 tokens: none comes before the others are computed, which is no time per output token."""
    load = replace(LOAD, input_tokens=4096, output_tokens=1)
    assert likely(rate(), load, 97).ttft == pytest.approx(97 * rate().prompt(4096), rel=0.05)


def test_bands_are_those_of_the_kind() -> None:
    for replica, known in ((rate(), DENSE), (rate(facts=moe()), MOE)):
        figures, found = at_load(replica, LOAD, 7), likely(replica, LOAD, 7)
        assert (figures.tpot.low, figures.tpot.high) == (found.tpot * known.tpot.low, found.tpot * known.tpot.high)
    pcie, nvlink = at_load(rate(2, gpu=replace(H100, interconnect="pcie")), LOAD, 7), at_load(rate(2), LOAD, 7)
    wider = (pcie.tpot.high / pcie.tpot.typical) / (nvlink.tpot.high / nvlink.tpot.typical)
    assert wider == pytest.approx(UNCERTAIN)


def test_tensor_parallelism_shortens_a_step_by_less_than_its_gpus() -> None:
    one, four = rate(1).step(8, 1000), rate(4).step(8, 1000)
    assert one / 4 < four < one


def test_pipeline_stages_do_not_shorten_one_request() -> None:
    assert rate(1, 2).step(1, 1000) >= rate(1, 1).step(1, 1000)


def test_as_many_are_in_flight_as_answer_the_rate() -> None:
    found = in_flight(3.0, lambda n: n / 2, 100)
    assert found == pytest.approx(6)
    assert in_flight(0.1, lambda n: n / 2, 100) == 1
    assert in_flight(51, lambda n: n / 2, 100) is None


def test_what_was_rarely_measured_is_named() -> None:
    assert list(extrapolations(dense(), rate())) == []
    found = extrapolations(moe(), rate(2, 2, facts=moe(), gpu=L4))
    assert [line.split(":")[0] for line in found] == ["TP over PCIe", "pipeline parallelism"]


def test_what_the_prefix_cache_holds_is_not_computed() -> None:
    cached = replace(LOAD, cached=768)
    whole, rest = likely(rate(), LOAD, 8), likely(rate(), cached, 8)
    computed = rate().prompt(256, after=768)
    assert computed < rate().prompt(1024) / 3.5
    assert whole.ttft - rest.ttft > rate().prompt(1024) - computed - 1e-9
    assert rest.output_tokens_per_second > whole.output_tokens_per_second
    assert rest.tpot < whole.tpot


def test_guessed_tokens_are_checked_together_and_each_is_drafted() -> None:
    guessing = replace(rate(), guesses=Guesses(3, draft_bytes=1e9, draft_layers=1))
    plain, ahead = guessing.step(8, 1000), guessing.step(8, 1000, guess=True)
    drafted = 3 * (1e9 / (FITTED.bandwidth * H100.bandwidth) + FITTED.layer)
    one_more = guessing.step(32, 0) - guessing.step(8, 0)  # three more tokens for each of eight requests
    assert ahead - plain == pytest.approx(drafted + one_more, rel=0.02)
    found = likely(guessing, replace(LOAD, per_step=2.5), 1)
    assert found.tpot == pytest.approx(guessing.step(1, 1152, guess=True) / 2.5)
    assert likely(guessing, LOAD, 1).tpot == guessing.step(1, 1152)

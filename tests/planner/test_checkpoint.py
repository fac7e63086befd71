"""The size of a checkpoint against what its config describes: shown, planned, and in the band."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.model.plan.facts import ModelFacts, Quantization
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Parallelism
from rayllm_ctl.planner.memory.checkpoint import unexplained_bytes
from rayllm_ctl.planner.memory.shards import ShardSettings, layer_tensors, whole_weights
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request
from tests.planner.facts import FP8_BLOCK, dense


def plan(facts: ModelFacts, checkpoint: int | None = None) -> Plan:
    """On one H100, with requests of 8,192 tokens."""
    service = LLMService(
        "test", Model("test/model"), engine=Engine(max_model_len=8192), parallelism=Parallelism(1, None, False)
    )
    gpu = find_gpu("H100-80GB")
    return decide(Request(service, facts, "test", engine(), (gpu,), (gpu,), checkpoint_bytes=checkpoint))


def described(facts: ModelFacts) -> int:
    return whole_weights(facts, facts.dtype)


QUANTIZED = replace(dense(scheme=FP8_BLOCK), quantization=Quantization("fp8", "fp8", 8))


@pytest.mark.parametrize(("share", "explained"), [(1.015, True), (0.985, True), (1.03, False), (0.97, False)])
@pytest.mark.parametrize("facts", [dense(), QUANTIZED], ids=["plain", "quantized"])
def test_a_checkpoint_agrees_with_its_config_to_two_percent(facts: ModelFacts, share: float, explained: bool) -> None:
    stored = int(share * described(facts))
    assert unexplained_bytes(facts, stored) == (0 if explained else stored - described(facts))
    assert unexplained_bytes(facts, None) == 0


def test_what_files_may_hold_besides_is_no_difference() -> None:
    tied = replace(dense(), tied_embeddings=True)
    head = tied.vocab_size * tied.hidden_size * 2
    assert unexplained_bytes(tied, described(tied)) == 0
    assert unexplained_bytes(tied, described(tied) + head) == 0
    silent = replace(dense(), traits=frozenset({"part"}))
    assert unexplained_bytes(silent, int(1.5 * described(silent))) == 0
    assert unexplained_bytes(silent, int(0.9 * described(silent))) < 0
    drafting = replace(dense(), draft_layers=dense().layers[:2])
    ahead = 2 * sum(layer_tensors(dense().layers[0], ShardSettings()))
    assert unexplained_bytes(drafting, described(drafting) + ahead) == 0
    assert unexplained_bytes(dense(), 2 * described(dense())) == 0, "in float32, converted while they are read"
    assert unexplained_bytes(QUANTIZED, 2 * described(QUANTIZED)) != 0


@pytest.mark.parametrize("share", [2.6, 1.3, 0.7])
@pytest.mark.parametrize(("facts", "by_files"), [(dense(), False), (QUANTIZED, True)], ids=["plain", "quantized"])
def test_a_difference_is_shown_and_the_band_reaches_to_the_other_size(
    facts: ModelFacts, by_files: bool, share: float
) -> None:
    """Plain weights are made as the config describes them, quantized ones as large as their files."""
    stored = int(share * described(facts))
    agreed, found = plan(facts), plan(facts, stored)
    assert agreed.memory is not None
    assert found.memory is not None
    difference = stored - described(facts)
    moved = found.memory.weights_bytes - agreed.memory.weights_bytes
    assert moved == pytest.approx(difference if by_files else 0, abs=2**21)
    band = found.memory.kv_cache_bytes
    larger = difference < 0 if by_files else difference > 0  # the other size: less may be left
    assert (band.typical - band.low if larger else band.high - band.typical) >= 0.98 * abs(difference)
    note = next(note for note in found.notes if "checkpoint's files" in note)
    assert ("more" if difference > 0 else "less") + " than its config describes" in note
    assert not any("checkpoint's files" in note for note in agreed.notes)

"""Readers of single architectures, held against vLLM's own objects on configs small enough to be made in seconds."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.catalog.modelconfig.decoders.recurrent.qwen4_tables import primes_from
from rayllm_ctl.errors import UserError
from rayllm_ctl.planner.engine.parallelism import Division, sharding_problem
from rayllm_ctl.planner.memory.checkpoint import fitted
from rayllm_ctl.planner.memory.pages import CacheShape, pages_of
from rayllm_ctl.planner.memory.shards import ShardSettings, stage_tensors, stages, vocab_rows
from rayllm_ctl.planner.speed.work import model_work
from tests.planner.mutate import damaged, outcome, service

MEASURED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "architectures.json").read_text())
"""Configs with what vLLM made of them: its `about` says how."""

ALL: dict[str, dict[str, Any]] = MEASURED["cases"]

BY_FIELDS = {
    "olmo_hybrid": 0.0001, "olmo_hybrid_other": 0.0001, "ouro": 0.0001, "iquest_loop": 0.0001,
    "iquest_loop_other": 0.0001, "pangu_moe": 0.021, "pangu_moe_other": 0.013, "arctic": 0.03, "plamo2": 0.004,
    "hy_v4_dense": 0.042, "hy_v4_sparse": 0.047, "hy_v4_other": 0.035,
}  # fmt: skip
"""Cases that have no row, with the share by which the weights may be off."""

OTHERWISE = {"hrm_text", "hrm_text_other", "minimax", "minimax_shared", "zamba2", "zamba2_other"}
"""Cases that the usual fields do not describe: two stacks of layers, an output head in float32, blocks that layers
share. The size of their files corrects them."""

CASES = {name: case for name, case in ALL.items() if name not in BY_FIELDS.keys() | OTHERWISE}

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def test_a_rank_holds_the_bytes_that_vllm_counts() -> None:
    found, expected = {}, {}
    for name, case in CASES.items():
        facts = read_config(case["config"])
        (stage,) = stages(facts, 1)
        for rank, counted in case["ranks"].items():
            found[name, rank] = sum(stage_tensors(facts, stage, ShardSettings(int(rank))))
            expected[name, rank] = counted["parameters"]
    assert found == expected


def test_a_rank_keeps_the_pages_that_vllm_lays_out() -> None:
    """Blocks of 16 tokens, bfloat16; pages by bytes and window (0: the whole context, or a state)."""
    found, expected = {}, {}
    for name, case in CASES.items():
        caches = [cache for layer in read_config(case["config"]).layers for cache in layer.caches]
        for rank, counted in case["ranks"].items():
            pages = [pages_of(cache, CacheShape(int(rank), 2, 2, 16)) for cache in caches]
            found[name, rank] = dict(Counter((page.bytes, page.window) for page in pages))
            expected[name, rank] = {(size, window): count for size, window, count in counted["pages"]}
    assert found == expected


def test_usual_fields_come_near_to_the_bytes_that_vllm_counts() -> None:
    far = {}
    for name, most in BY_FIELDS.items():
        facts = read_config(ALL[name]["config"])
        (stage,) = stages(facts, 1)
        for rank, counted in ALL[name]["ranks"].items():
            found = sum(stage_tensors(facts, stage, ShardSettings(int(rank))))
            if abs(found / counted["parameters"] - 1) > most:
                far[name, rank] = found / counted["parameters"] - 1
    assert far == {}


def test_the_size_of_the_files_corrects_what_the_usual_fields_do_not_say() -> None:
    far = {}
    for name in OTHERWISE:
        stored = ALL[name]["ranks"]["1"]["parameters"]
        facts = fitted(read_config(ALL[name]["config"]), stored)
        (stage,) = stages(facts, 1)
        found = sum(stage_tensors(facts, stage, ShardSettings())) / stored
        if abs(found - 1) > 0.02:
            far[name] = found
    assert far == {}


def test_the_compact_form_says_the_same() -> None:
    configs = {name: case["config"] for name, case in ALL.items()}
    assert [name for name, config in configs.items() if read_config(compact(config)) != read_config(config)] == []


@pytest.mark.parametrize("name", ALL)
def test_a_damaged_config_is_planned_or_refused_with_a_reason(name: str) -> None:
    rng = random.Random(name)
    for _ in range(5):
        config, asked = damaged(ALL[name]["config"], rng), service(rng, ("H100-80GB", "L4"))
        assert outcome(config, asked, ALL[name]["version"]) in ("fits", "risky", "does-not-fit", "invalid", "refused")
        try:
            facts = read_config(config)
        except UserError:
            continue
        assert read_config(compact(config)) == facts


def test_a_layer_that_a_token_passes_several_times_is_held_once() -> None:
    config = ALL["ouro"]["config"]
    once, often = read_config({**config, "total_ut_steps": 1}), read_config({**config, "total_ut_steps": 4})
    assert once.parameters == often.parameters
    held = sum(layer.parameters for layer in once.layers)
    assert often.active_parameters - once.active_parameters == 3 * held
    assert sum(len(layer.caches) for layer in often.layers) == 4 * once.layer_count
    work = {key: model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None) for key, facts in
            (("once", once), ("often", often))}  # fmt: skip
    assert work["often"].dense_bytes > 3 * work["once"].dense_bytes
    assert work["often"].layers == 4 * work["once"].layers


def test_banks_of_experts_are_held_by_every_stage_and_used_by_every_layer() -> None:
    facts = read_config(CASES["mobius"]["config"])
    held = sum(layer.parameters for layer in facts.shared)
    whole, halves = stages(facts, 1), stages(facts, 2)
    bytes_of = [[sum(stage_tensors(facts, stage, ShardSettings(1))) for stage in cut] for cut in (whole, halves)]
    assert sum(bytes_of[1]) - sum(bytes_of[0]) == 2 * held
    bank = facts.shared[0].experts[0]
    assert facts.moe
    assert [layer.passes for layer in facts.shared] == [3, 3, 2]
    routed = sum(layer.active_parameters for layer in facts.shared)
    assert routed == facts.layer_count * (bank.top_k * bank.per_expert + bank.count * bank.hidden)
    work = model_work(facts, dtype="bfloat16", kv_cache_dtype="auto", quantization=None)
    assert sum(group.layers for group in work.experts) == facts.layer_count


@pytest.mark.parametrize(
    ("name", "size"), [("longcat_ngram", "ngram_vocab_size_ratio"), ("qwen4", "ngram_vocab_size_base")]
)
def test_a_table_that_is_only_looked_up_costs_memory_and_no_time(name: str, size: str) -> None:
    config = CASES[name]["config"]
    more = read_config({**config, size: 2 * config[size]})
    facts = read_config(config)
    assert more.parameters > facts.parameters
    assert more.active_parameters == facts.active_parameters


@pytest.mark.parametrize(
    ("name", "changes", "tensor", "fits"),
    [
        ("ling25", {}, 4, True),
        ("ling25", {}, 8, False),
        ("ling25", {"group_norm_size": 1}, 2, False),
        ("step3", {}, 8, True),
    ],
)
def test_what_vllm_cannot_divide_is_refused(name: str, changes: dict[str, Any], tensor: int, fits: bool) -> None:
    """Groups of lightning attention's norm. Step 3's one KV head is repeated."""
    facts = read_config({**CASES[name]["config"], **changes})
    assert find_gpu("H100-80GB").max_per_node >= tensor
    assert (sharding_problem(facts, tensor, Division((0, 29, 0))) is None) is fits


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ling25", {"group_norm_size": 7}, "group_norm_size"),
        ("ouro", {"total_ut_steps": 10**6}, "total_ut_steps"),
        ("plamo3", {"interleaved_sliding_window": [2048, "x"]}, "interleaved_sliding_window"),
        ("longcat_ngram", {"emb_neighbor_num": 1}, "emb_neighbor_num"),
        ("mobius", {"text_config": {"hidden_size": 512}}, "num_attention_heads"),
        ("qwen4", {"ple_layer_ids": [9]}, "ple_layer_ids"),
        ("qwen4", {"ple_embed_dim": 130}, "ple_embed_dim"),
        ("qwen4", {"ple_embed_dim": 2**20, "heads_per_ngram": 256, "ngram_size": 17}, "8192 tables"),
        ("qwen4", {"hc_count": 1}, "hc_count"),
        ("inkling", {"n_shared_experts": 0}, "n_shared_experts"),
    ],
)
def test_a_wrong_field_is_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_config({**ALL[name]["config"], **changes})


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("ling25", {"qk_nope_head_dim": None}, "qk_nope_head_dim"),
        ("step3", {"moe_num_experts": None}, "moe_num_experts"),
        ("qwen4", {"indexer_budget": None}, "indexer_budget"),
        ("inkling", {"n_routed_experts": None}, "n_routed_experts"),
    ],
)
def test_a_field_that_is_missing_is_named_and_the_usual_ones_take_its_place(
    name: str, changes: dict[str, Any], field: str
) -> None:
    config = {**ALL[name]["config"], **changes}
    facts = read_config(config)
    assert "generic" in facts.traits
    assert f"config.json has no field {field}" in facts.assumed[0]
    assert read_config(compact(config)) == facts


@pytest.mark.parametrize(
    ("name", "rank", "parameters"),
    [
        ("ling25", 2, 690445088),
        ("ling3", 1, 1397275872),
        ("sarvam_mla", 2, 1314883264),
        ("step3", 2, 296824672),
        ("qwen4", 1, 91562564),
        ("qwen4", 2, 48618212),
    ],
)
def test_blocks_of_fp8_take_the_bytes_that_vllm_counts(name: str, rank: int, parameters: int) -> None:
    """Measured as the others, with every linear layer quantized."""
    facts = read_config({**CASES[name]["config"], "quantization_config": FP8})
    (stage,) = stages(facts, 1)
    assert sum(stage_tensors(facts, stage, ShardSettings(rank))) == parameters


def test_primes_follow_a_base_of_any_size() -> None:
    assert primes_from(1, 6) == (2, 3, 5, 7, 11, 13)
    assert primes_from(20_000_000, 2) == (20_000_003, 20_000_023)
    assert primes_from(2**32, 1) == (4294967311,)
    assert primes_from(3215031751, 1) != (3215031751,), "a strong pseudoprime to the bases 2, 3, 5 and 7"


def test_a_whole_table_of_embeddings_is_on_every_rank() -> None:
    facts = read_config(CASES["inkling"]["config"])
    (stage,) = stages(facts, 1)
    shards = ShardSettings(2)
    held = [sum(stage_tensors(replace(facts, whole_embedding=whole), stage, shards)) for whole in (True, False)]
    assert held[0] - held[1] == (facts.vocab_size - vocab_rows(facts.vocab_size, 2)) * facts.hidden_size * 2


def test_what_embeds_runs_of_tokens_runs_on_one_stage() -> None:
    assert read_config(CASES["qwen4"]["config"]).single_stage
    assert not read_config(CASES["qwen4_plain"]["config"]).single_stage


def test_a_small_projection_that_is_left_alone_leaves_its_siblings_quantized() -> None:
    facts = read_config({**CASES["ling3"]["config"], "quantization_config": {**FP8, "ignored_layers": ["b_proj"]}})
    schemes = {linear.name: linear.scheme for linear in facts.layers[0].linears}
    assert schemes["attention.b_proj"] is None
    assert schemes["attention.qkv_proj"] is not None

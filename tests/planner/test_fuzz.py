"""A short run of `make fuzz`: damaged configs and odd flags give a plan or a clear refusal, never a traceback."""

from __future__ import annotations

import collections
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayllm_ctl.catalog import gpus, models
from rayllm_ctl.catalog.engines import engine_versions
from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.errors import UserError
from tests.planner.mutate import damaged, outcome, service, sound_configs

WORDS = st.none() | st.booleans() | st.integers(-5, 10**9) | st.floats(allow_nan=True) | st.text(max_size=8)


def test_damaged_configs_are_planned_or_refused() -> None:
    configs = sound_configs()
    kinds = tuple(gpus.load_gpus())
    seen: collections.Counter[str] = collections.Counter()
    for number in range(250):
        rng = random.Random(f"unit-{number}")
        config, asked = damaged(rng.choice(configs), rng), service(rng, kinds)
        seen[outcome(config, asked, rng.choice(engine_versions()))] += 1
    assert {"refused", "invalid", "fits", "does-not-fit"} <= seen.keys()


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["architectures", "model_type", "hidden_size", "num_hidden_layers"]), WORDS))
def test_any_mapping_is_read_or_refused_with_words(config: dict[str, object]) -> None:
    with pytest.raises(UserError) as refused:
        read_config(config | {"vocab_size": "many"})
    assert refused.value.message


def test_sizes_that_come_to_nothing_are_refused() -> None:
    known = models.find_model("LiquidAI/LFM2-1.2B")
    assert known is not None
    with pytest.raises(UserError, match="leave nothing of"):
        read_config({**known.config, "block_ffn_dim_multiplier": 1e-9})

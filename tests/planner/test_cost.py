from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.model.plan.plan import Band, Cost, UnknownCost
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.planner.speed.cost import cost, gpu_price, replica_price
from tests.planner.gpus import H100, T4


def known(section: Cost | UnknownCost) -> Cost:
    assert isinstance(section, Cost)
    return section


def test_price_of_a_gpu_is_the_band_over_clouds() -> None:
    assert gpu_price(H100) == Band(4.2, 4.9, 5.5)
    assert replica_price(H100, 4) == pytest.approx(19.6)


def test_cost_scales_with_gpus_and_replicas() -> None:
    section = known(cost(H100, 4, 2, 3, None))
    assert section.per_hour == Band(33.6, 39.2, 44.0)
    assert section.per_hour_at_max_replicas == Band(50.4, 58.8, 66.0)
    assert section.per_million_output_tokens is None
    assert "perMillionOutputTokens" not in to_json(section)


def test_cost_per_token_is_dearest_where_tokens_are_slowest() -> None:
    each = known(cost(H100, 1, 1, 1, Band(500.0, 1000.0, 2000.0))).per_million_output_tokens
    assert each is not None
    assert each.typical == pytest.approx(1e6 * 4.9 / 3600 / 1000, abs=1e-3)
    assert each.low < each.typical < each.high


def test_a_share_of_a_larger_machine_is_told() -> None:
    only_large = replace(H100, shapes=H100.shapes[:1])
    assert known(cost(only_large, 4, 1, 1, None)).smallest_machine == 8
    assert known(cost(only_large, 8, 1, 1, None)).smallest_machine is None
    assert "smallestMachine" not in to_json(cost(H100, 1, 1, 1, None))


def test_no_price_is_said_and_not_guessed() -> None:
    assert gpu_price(T4) is None
    section = cost(T4, 1, 1, 1, Band(1.0, 2.0, 3.0))
    assert to_json(section) == {"known": False, "note": "the price of T4 is unknown; --prices FILE can add one"}

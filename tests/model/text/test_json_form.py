from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from rayllm_ctl.model.text.json_form import camel, to_json


@dataclass(frozen=True)
class Inner:
    kv_cache: float


@dataclass(frozen=True)
class Outer:
    a_tuple: tuple[Inner, ...]
    by_name: dict[str, int]


def test_keys_of_dataclasses_are_camel_case_and_names_stay() -> None:
    assert camel("max_model_len") == "maxModelLen"
    assert to_json(Outer((Inner(0.5),), {"max_loras": 1})) == {"aTuple": [{"kvCache": 0.5}], "byName": {"max_loras": 1}}


def test_sums_that_differ_in_their_last_digits_are_written_alike() -> None:
    """The same sum under Python 3.11 and 3.12."""
    assert to_json(264.74215389866663) == to_json(264.7421538986667)
    assert to_json(2**60) == 2**60


def test_times_are_those_of_kubernetes() -> None:
    assert to_json(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00Z"
    assert to_json(datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=3)))) == "2026-01-02T00:00:00Z"

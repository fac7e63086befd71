from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.inference.sampling import Sampling
from rayllm_ctl.serving.batch.settings import parse


def sampling(**sections: Any) -> Sampling:
    base = {"name": "j", "input": {"prompts": ["x"]}, "output": {"path": "/o"}, "engine": {"model": "m"}}
    return Sampling(parse({**base, **sections}))


def test_answers_are_as_long_as_the_context_allows() -> None:
    assert json.loads(sampling().of({})) == {"max_tokens": None}


def test_a_json_schema_guides_the_answer() -> None:
    assert json.loads(sampling(jsonSchema={"type": "object"}).of({}))["structured_outputs"] == {
        "json": {"type": "object"}
    }


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("temperature", "0.5", 0.5),
        ("temperature", None, 0.9),
        ("temperature", "", 0.9),
        ("stop", "5", "5"),
        ("seed", 3, 3),
    ],
)
def test_a_column_goes_over_the_job(name: str, value: Any, expected: Any) -> None:
    made = sampling(sampling={"temperature": 0.9}, samplingColumns={name: "c"})
    assert json.loads(made.of({"c": value}))[name] == expected


def test_one_answer_is_what_a_batch_job_gives_anyway() -> None:
    assert json.loads(sampling(sampling={"n": 1, "temperature": 0.5}).of({})) == {
        "max_tokens": None,
        "temperature": 0.5,
    }
    with pytest.raises(BatchError, match=r"sampling\.n is not supported"):
        sampling(sampling={"n": 2})

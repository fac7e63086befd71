"""Expressions of a config.json: what matches is what `re` matches, and none takes long."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from rayllm_ctl.catalog.modelconfig import expressions, read_config
from rayllm_ctl.catalog.modelconfig.expressions import BoundedExpression
from rayllm_ctl.errors import UsageError
from tests.catalog.test_modelconfig import LLAMA

NAME = "language_model.model.layers.17.self_attn.q_proj"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r".*self_attn.*", True),
        (r".*\.layers\.(?:1|17|30)\..*(?:q|k)_proj$", True),
        (r".*\.layers\.\d+\..*(?:q|k)_proj.*x", False),
        (r"(?!.*mlp).*layers.*(?<!k_)proj", True),
        (r"(?i).*LAYERS.*(Q|K)_[A-Z]+$", True),
        (r"self_attn", False),
        (r".*\bself_attn\b.*\bq_proj\b.*$", True),
        (r"(?:[a-z_]+\.){2}layers\.\d{1,2}\.[^.]+\.q_proj", True),
    ],
)
@pytest.mark.parametrize("few", [expressions._FEW, -1])
def test_expressions_of_checkpoints_match(pattern: str, found: bool, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `re`, and by sets of positions."""
    monkeypatch.setattr(expressions, "_FEW", few)
    assert BoundedExpression(pattern).matches(NAME) is found is (re.match(pattern, NAME) is not None)


def test_sets_of_positions_match_what_re_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_FEW", -1)
    monkeypatch.setattr(expressions, "_MOST_COST", 10**9)
    chosen = random.Random(7)
    compared = 0
    for _ in range(3000):
        pattern = _pattern(chosen, 2)
        expression = BoundedExpression(pattern)
        for _ in range(4):
            text = "".join(chosen.choices("aab.c1", k=chosen.randint(1, 6)))
            assert expression.matches(text) == bool(re.match(pattern, text)), (pattern, text)
            compared += 1
    assert compared == 12_000


def _pattern(chosen: random.Random, depth: int) -> str:
    """Quantifiers are not nested: `re` would not end."""
    branches = []
    for _ in range(chosen.randint(1, 2)):
        parts = []
        for _ in range(chosen.randint(0, 4)):
            if depth and chosen.random() < 0.3:
                parts.append(chosen.choice(["(", "(?:", "(?=", "(?!"]) + _pattern(chosen, depth - 1) + ")")
                parts.append(chosen.choice(["", "", "", "?"]))
            elif chosen.random() < 0.15:
                parts.append(chosen.choice(["^", "$", r"\b", r"\B", r"\Z", "(?<=a)", "(?<!ab)"]))
            else:
                parts.append(chosen.choice(["a", "b", ".", "c", r"\.", "[ab]", "[^a]", r"\w", r"\d", r"\x61"]))
                parts.append(chosen.choice(["", "", "*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "+?"]))
        branches.append("".join(parts))
    return "|".join(branches)


@pytest.mark.parametrize("pattern", ["(.*)*x", ".*" * 30 + "x", "(?:a|.)*" * 5 + "x", ".?" * 60 + "x", r"(\w+\.?)+!"])
def test_an_expression_on_which_re_would_not_end_is_matched(pattern: str) -> None:
    expression = BoundedExpression(pattern)
    assert not expression.matches(NAME.replace("x", "y"))
    assert expression.cost <= expressions._MOST_COST


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "is invalid"),
        ("a{99999999999}", "is invalid"),
        ("(((a|.)*)*)*x", "is too complex"),
        ("(" * 100 + ")" * 100, "is too complex"),
        (r"(.*)\1.*x", "is not supported"),
        ("(?>a*).*", "is not supported"),
        ("a*+", "is not supported"),
        ("b" * 5000, "an entry of 5003 characters"),
    ],
)
def test_an_expression_that_is_not_read_is_rejected_and_shown(pattern: str, why: str) -> None:
    quantization: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:{pattern}": {}}}
    with pytest.raises(UsageError, match=why) as found:
        read_config({**LLAMA, "quantization_config": quantization})
    assert found.value.hints


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:.*a.*b{number}.*c.*d": {} for number in range(4000)}},
        {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:{number}": {} for number in range(5000)}},
        {"quant_method": "auto-round", "bits": 4, "extra_config": {f"{number}.*": {} for number in range(5000)}},
        {"quant_method": "fp8", "ignored_layers": [f"*{number}*" for number in range(20_000)]},
    ],
)
def test_more_expressions_than_can_be_matched_are_rejected(quantization: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="quantization_config"):
        read_config({**LLAMA, "num_hidden_layers": 100, "quantization_config": quantization})


def test_thousands_of_full_names_are_read() -> None:
    """AutoRound lists single modules, which may be every expert."""
    names = [f"model.layers.{layer}.mlp.experts.{expert}.up_proj" for layer in range(60) for expert in range(500)]
    modules = {name: {"bits": 16} for name in [*names, "model.layers.0.self_attn.o_proj"]}
    quantization = {"quant_method": "auto-round", "bits": 4, "extra_config": modules}
    facts = read_config({**LLAMA, "quantization_config": quantization})
    assert [linear.scheme for linear in facts.layers[0].linears if linear.name.endswith("o_proj")] == [None]

"""Canonical YAML: every reader takes it for the data it was made from."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rayllm_ctl.model.text.yaml_text import dump, dump_all, flow
from tests.model.services import TRAPS, texts, values

documents = st.dictionaries(texts, values, max_size=5) | st.lists(values, max_size=4)


@given(documents)
def test_what_is_dumped_is_what_is_read(document: Any) -> None:
    text = dump(document)
    assert yaml.safe_load(text) == document
    assert yaml.load(text, Loader=yaml.CSafeLoader) == document
    assert dump(document) == text


@given(values)
def test_one_line_form_is_what_is_read(value: Any) -> None:
    text = flow(value)
    assert "\n" not in text
    assert yaml.safe_load(text) == value


@given(st.dictionaries(texts, st.integers() | texts))
def test_one_line_form_is_json(value: dict[str, Any]) -> None:
    assert json.loads(flow(value)) == value


LONG = st.integers(900, 1100).map(lambda length: "k" * length) | st.integers(300, 1100).map(lambda n: "\x85'" * n)


@settings(max_examples=30)
@given(st.dictionaries(LONG, st.dictionaries(LONG, values, max_size=2) | values, max_size=2))
def test_keys_of_any_length(document: Any) -> None:
    for text in (dump(document), flow(document), dump({"config": dump(document)})):
        for loader in (yaml.CSafeLoader, yaml.SafeLoader):
            read = yaml.load(text, Loader=loader)
            assert (yaml.load(read["config"], Loader=loader) if "config" in read else read) == document


@pytest.mark.parametrize("trap", [*TRAPS, "Y", "Off", "NULL", "0b1", "+1", "-1", "1.5", "1E3", "nan", "-.Inf", "0"])
def test_words_that_some_reader_takes_for_something_else_are_quoted(trap: str) -> None:
    if trap != "nan":  # plain text in YAML 1.1 and 1.2: only .nan is the number
        assert dump([trap])[2] in "'\"|"


@pytest.mark.parametrize(
    "word", ["qwen3-32b", "ray.io/v1", "8Gi", "500m", "90s", "1h30m", "/models", "a:b", "HTTP_PROXY"]
)
def test_harmless_words_stay_as_they_are(word: str) -> None:
    assert dump([word]) == f"- {word}\n"


def test_layout() -> None:
    document = {
        "spec": {"b": [{"z": 1, "name": "m"}], "a": "one\ntwo\n", "e": {}, "l": []},
        "metadata": {"name": "x"},
        "kind": "K",
        "apiVersion": "v1",
    }
    assert dump(document) == (
        "apiVersion: v1\nkind: K\nmetadata:\n  name: x\nspec:\n"
        "  a: |\n    one\n    two\n  b:\n  - name: m\n    z: 1\n  e: {}\n  l: []\n"
    )
    assert dump({"b": 1, "a": 2}, sort=False) == "b: 1\na: 2\n"
    assert dump_all([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1: 2}, {"a": object()}, b"x"])
def test_what_yaml_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"no form|surrogate|must be text"):
        dump({"key": value})


def test_exponents_are_numbers_for_every_reader() -> None:
    assert dump([1e-5, 1e-7, 1.5e16, 1e22]) == "- 0.00001\n- 1.0e-7\n- 15000000000000000.0\n- 1.0e+22\n"


def test_readable_text_stays_readable_and_text_that_hides_or_reorders_is_escaped() -> None:
    assert dump({"template": "Hello 😀\n中文\n"}) == "template: |\n  Hello 😀\n  中文\n"
    assert dump({"a": "user\u202enimda", "b": "zero\u200bwidth"}) == (
        'a: "user\\u202enimda"\nb: "zero\\u200bwidth"\n'
    )  # fmt: skip

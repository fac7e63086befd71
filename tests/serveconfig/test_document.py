"""YAML as Ray reads it, and what other parsers make of it. Expected values: PyYAML 6.0 and k8s.io/apimachinery 0.35."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.serveconfig.document import read_serve_document

BOMB = "a0: &a0 [b, b]\n" + "".join(
    f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 20)
)
"""Twenty lines of aliases that expand to a million values."""


@pytest.mark.parametrize(
    ("word", "value", "other"),
    [
        ("on", True, '"on"'),
        ("No", False, '"No"'),
        ("y", "y", "true"),
        ("N", "N", "false"),
        ("017", 15, "17"),
        ("08", "08", "8"),
        ("0o17", "0o17", "15"),
        ("0b11", 3, '"0b11"'),
        ("1_000", 1000, '"1_000"'),
        ("1e3", "1e3", "1000.0"),
        ("1.5e3", "1.5e3", "1500.0"),
        ("1:30", 90, '"1:30"'),
    ],
)
def test_words_that_parsers_read_differently(word: str, value: Any, other: str) -> None:
    document = read_serve_document(f"applications:\n- a: 1\n  b: {word}\n", "f.yaml")
    assert document.data["applications"][0]["b"] == value
    [note] = document.notes
    line = document.place(note)
    assert line.startswith(f"f.yaml:3: applications[0].b: {word} is read as ")
    assert line.endswith(f"other parsers read {other}" if other[0] != '"' else f"other parsers read the text {other}")


@pytest.mark.parametrize("word", ["true", "1", "1.5", "1.0e+3", "null", "~", "0x1F", '"on"', "'1e3'", "text", "-0"])
def test_words_without_doubt(word: str) -> None:
    assert read_serve_document(f"a: {word}", "f").notes == ()


def test_the_value_of_a_secret_is_not_repeated() -> None:
    [note] = read_serve_document("env_vars:\n  DB_PASSWORD: 0123", "f").notes
    assert "0123" not in note.message
    assert note.path == ("env_vars", "DB_PASSWORD")


def test_anchors_merge_keys_and_lines() -> None:
    document = read_serve_document("x: &a {k: 1, m: 2}\ny:\n  <<: *a\n  m: 3\nz: [*a]\n", "f")
    assert document.data == {"x": {"k": 1, "m": 2}, "y": {"k": 1, "m": 3}, "z": [{"k": 1, "m": 2}]}
    assert document.line(("y", "m")) == 4
    assert document.line(("y", "absent", 3)) == 2


def test_keys_become_text_as_in_json() -> None:
    assert read_serve_document("1: a\ntrue: b\nnull: c\n", "f").data == {"1": "a", "true": "b", "null": "c"}


def test_the_last_of_duplicate_keys_counts_and_is_noted() -> None:
    document = read_serve_document("a: 1\nb: 2\na: 3\n", "f")
    assert document.data == {"a": 3, "b": 2}
    assert [note.message for note in document.notes] == ["duplicate key, first in line 1: Ray takes the last one"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f: the file is empty"),
        ("a: [", "not valid YAML"),
        ("a: 1\n---\nb: 2", "not valid YAML: but found another document"),
        ("a:\n- 2024-01-01", "f:2: 2024-01-01 is a date in YAML 1.1, which JSON cannot hold; quote it"),
        ("a: .inf", "f:1: .inf is not a finite number"),
        ("a: !!set {b}", "the tag tag:yaml.org,2002:set has no form in JSON"),
        ("a: !!python/name:os.system", "not a value that Ray can read"),
        ("a: =", "not a value that Ray can read"),
        ("a: &x [*x]", "an alias refers to a value that contains it"),
        ("[a]: 1", "f:1: a key must be a scalar"),
        ("a: {<<: 1}", "a merge key (<<) takes a mapping"),
        (BOMB, "expand to too much"),
        ("a: " + "[" * 100 + "]" * 100, "nested too deep"),
    ],
)  # fmt: skip
def test_files_that_are_rejected(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_serve_document(text, "f")
    assert words in caught.value.message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)  # fmt: skip
def test_what_is_written_is_read_alike(value: Any) -> None:
    text = dump({"a": value})
    assert read_serve_document(text, "f").data == {"a": value} == yaml.safe_load(text)
    assert read_serve_document(text, "f").notes == ()

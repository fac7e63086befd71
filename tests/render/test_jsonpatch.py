"""JSON Patch: the examples of RFC 6902 (appendix A), and what is said of a place that does not exist."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.render.json_patch import json_patch
from rayllm_ctl.render.merge import PatchError


@pytest.mark.parametrize(
    ("base", "operation", "result"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"baz": "qux", "foo": "bar"}),
        ({"foo": ["a", "b"]}, {"op": "add", "path": "/foo/1", "value": "x"}, {"foo": ["a", "x", "b"]}),
        ({"foo": ["a"]}, {"op": "add", "path": "/foo/1", "value": "x"}, {"foo": ["a", "x"]}),
        ({"foo": ["a"]}, {"op": "add", "path": "/foo/-", "value": ["x"]}, {"foo": ["a", ["x"]]}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"foo": ["a", "b", "c"]}, {"op": "remove", "path": "/foo/1"}, {"foo": ["a", "c"]}),
        ({"a": 1, "b": 2}, {"op": "replace", "path": "/a", "value": "x"}, {"a": "x", "b": 2}),
        ({"a": {"b": 1}, "c": {}}, {"op": "move", "from": "/a/b", "path": "/c/d"}, {"a": {}, "c": {"d": 1}}),
        ({"f": ["1", "2", "3"]}, {"op": "move", "from": "/f/0", "path": "/f/2"}, {"f": ["2", "3", "1"]}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": [1, 2.0]}, {"op": "test", "path": "/a", "value": [1.0, 2]}, {"a": [1, 2.0]}),
        ({"/": 9, "~1": 10}, {"op": "remove", "path": "/~01"}, {"/": 9}),
        ({"a/b": {"c": 1}}, {"op": "replace", "path": "/a~1b/c", "value": 2}, {"a/b": {"c": 2}}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": None}, {"a": None}),
    ],
)
def test_operations(base: Any, operation: Any, result: Any) -> None:
    before = copy.deepcopy(base)
    assert json_patch(base, [operation]) == result
    assert base == before


@pytest.mark.parametrize(
    ("operation", "path", "message", "hint"),
    [
        (
            {"op": "remove", "path": "/spec/contaners/0"},
            (1, "path"),
            '/spec/contaners/0 does not exist: there is no "contaners"',
            "did you mean containers?",
        ),
        (
            {"op": "replace", "path": "/spec/containers/1", "value": 1},
            (1, "path"),
            '/spec/containers/1 does not exist: "1" is not an index of a list of 1',
            "",
        ),
        (
            {"op": "add", "path": "/spec/containers/2", "value": 1},
            (1, "path"),
            '/spec/containers/2 does not exist: "2" is not an index of a list of 1',
            "",
        ),
        (
            {"op": "add", "path": "/spec/nodeSelector/x", "value": 1},
            (1, "path"),
            '/spec/nodeSelector/x does not exist: there is no "nodeSelector"',
            "",
        ),
        (
            {"op": "add", "path": "/kind/x", "value": 1},
            (1, "path"),
            "/kind/x does not exist: its parent is neither a mapping nor a list",
            "",
        ),
        (
            {"op": "move", "from": "/spec", "path": "/spec/x"},
            (1, "path"),
            "/spec/x is part of what is moved",
            "",
        ),
        (
            {"op": "copy", "from": "/a", "path": "/b"},
            (1, "from"),
            '/a does not exist: there is no "a"',
            "",
        ),
        (
            {"op": "test", "path": "/on", "value": 1},
            (1, "value"),
            "the test fails: /on has another value",
            "",
        ),
    ],
)
def test_an_operation_that_cannot_be_applied(operation: Any, path: Any, message: str, hint: str) -> None:
    base = {"kind": "Pod", "on": True, "spec": {"containers": [{"name": "ray"}]}}
    with pytest.raises(PatchError) as raised:
        json_patch(base, [{"op": "add", "path": "/ok", "value": 1}, operation])
    problem = raised.value.problem
    assert (problem.path, problem.message, problem.hint) == (path, message, hint)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/", "~"]), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["a", "b/", "~"]), VALUES, min_size=1), st.data(), VALUES)
def test_what_is_added_is_found_there_and_removing_it_restores(base: Any, data: Any, value: Any) -> None:
    key = data.draw(st.sampled_from(sorted(base))).replace("~", "~0").replace("/", "~1")
    operations = [
        {"op": "copy", "from": f"/{key}", "path": "/new"},
        {"op": "replace", "path": "/new", "value": value},
        {"op": "test", "path": "/new", "value": value},
        {"op": "remove", "path": "/new"},
    ]
    assert json_patch(base, operations) == base

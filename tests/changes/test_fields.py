from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.changes.fields import field_differences, format_path


def found(old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    return [(format_path(one.path), one.old, one.new) for one in field_differences(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)]),
        ({"l": {"x.io/y": "1"}}, {"l": {"x.io/y": "2"}}, [('l["x.io/y"]', "1", "2")]),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            [("env[B].value", "1", "2")],
        ),
        ({"env": [{"name": "A"}]}, {"env": [{"name": "A"}, {"name": "B"}]}, [("env[B]", None, {"name": "B"})]),
        ({"e": [{"name": "A"}, {"name": "B"}]}, {"e": [{"name": "B"}, {"name": "A"}]},
         [("e.order", ["A", "B"], ["B", "A"])]),
        ({"l": [{"m": 1}]}, {"l": [{"m": 2}]}, [("l[0].m", 1, 2)]),
        ({"l": [1, 2]}, {"l": [1, 3]}, [("l", [1, 2], [1, 3])]),
        ({"l": [{"name": "a", "v": 1}, {"name": "a", "v": 2}]}, {"l": [{"name": "a", "v": 1}, {"name": "a", "v": 3}]},
         [("l[1].v", 2, 3)]),
        ({"a": None}, {}, []),
        ({"a": {}}, {"a": None}, []),
        ({"a": 0}, {}, [("a", 0, None)]),
        ({"a": "1"}, {"a": 1}, [("a", "1", 1)]),
        ({"a": {"b": 1}}, {"a": [1]}, [("a", {"b": 1}, [1])]),
    ],
)  # fmt: skip
def test_the_smallest_differing_parts(old: Any, new: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert found(old, new) == expected


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "b"]), inner, max_size=3),
    max_leaves=8,
)


@given(json_like, json_like)
def test_equal_values_and_only_they_have_no_difference(one: Any, other: Any) -> None:
    assert found(one, one) == []
    if _without_empty(one) != _without_empty(other):
        assert list(field_differences(one, other)) != []


def _without_empty(value: Any) -> Any:
    """What is left when absent, null and empty are the same."""
    if isinstance(value, dict):
        parts = {key: _without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part is not None} or None
    if isinstance(value, list):
        return [_without_empty(part) for part in value] or None
    return value

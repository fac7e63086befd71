"""The texts are those of Go 1.26: json.Marshal of what json.Unmarshal makes of the value."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster.api.go_json import go_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"é": None, "Z": [True, False], "": []}}, '{"a":{"":[],"Z":[true,false],"é":null},"b":1}'),
        ("é<&>\u2028\u2029", '"é\\u003c\\u0026\\u003e\\u2028\\u2029"'),
        ("\x7f\x01\b\f\n\r\t\"\\/😀", '"\x7f\\u0001\\b\\f\\n\\r\\t\\"\\\\/😀"'),
        ([1.0, 0.92, 0.0, -0.5, 131072], "[1,0.92,0,-0.5,131072]"),
        ([1e-05, 1.5e-05, 1e-06, 9.99e-07, 1.5e-10], "[0.00001,0.000015,0.000001,9.99e-7,1.5e-10]"),
        ([1e16, 808523857559889664.0, 1e20], "[10000000000000000,808523857559889700,100000000000000000000]"),
        ([1e21, 1.25e21], "[1e+21,1.25e+21]"),
        ({2: "b", "a": 1, True: None}, '{"2":"b","a":1,"true":null}'),
        ({"<b>": (1, 2)}, '{"\\u003cb\\u003e":[1,2]}'),
    ],
)  # fmt: skip
def test_the_text_is_that_of_go(value: Any, text: str) -> None:
    assert go_json(value) == text


def test_what_json_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError):
        go_json({"a": object()})

"""The form in which most golden manifests are kept: short, and still complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bases import BASE_OF, HEADER, ROOT
from tests.differences import DoesNotApplyError, difference, patched

BASE = """\
kind: RayService
metadata:
  name: chat
spec:
  env:
  - name: LOG
    value: debug
  - name: PERIOD
    value: '10'
  groups:
  - name: gpu
    labels: {}
---
kind: Service
metadata:
  name: chat
"""

LINES = st.lists(
    st.builds(
        "{}{}".format,
        st.sampled_from(["", "  ", "    ", "- ", "  - "]),
        st.sampled_from(["kind: A", "kind: B", "a:", "b: 1", "b: 2", "name: x", "name: y", "}", "", "a: ..."]),
    )
    | st.just("---"),
    max_size=12,
).map(lambda lines: "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("debug", "info", "@@ RayService.spec.env[LOG].value\n-    value: debug\n+    value: info\n"),
        ("  groups", "  - name: X\n  groups", "@@ after RayService.spec.env[PERIOD]\n+  - name: X\n"),
        ("env:\n", "env:\n  - name: X\n", "@@ first in RayService.spec.env\n+  - name: X\n"),
        ("  groups:\n  - name: gpu\n    labels: {}\n", "", "@@ RayService.spec.groups\n-  groups: ...\n"),
        (BASE[BASE.index("---") :], "", "@@ Service\n---- ...\n"),
        (
            BASE[BASE.index("---") :],
            "  - name: cpu\n",
            "@@ after RayService.spec.groups[gpu]\n+  - name: cpu\n@@ Service\n---- ...\n",
        ),
    ],
    ids=["value", "item", "first item", "all below a line", "object", "item before a removed object"],
)
def test_what_is_written(old: str, new: str, expected: str) -> None:
    assert difference(BASE, BASE.replace(old, new)) == expected


@given(LINES, LINES, st.sampled_from([2, 20]))
def test_nothing_is_lost(base: str, text: str, copied: int) -> None:
    assert patched(base, difference(base, text, copied=copied)) == text


def test_a_long_item_begins_as_a_copy_of_the_one_most_like_it() -> None:
    text = BASE.replace("  groups", "  - name: LAST\n    value: '10'\n    more: 1\n  groups")
    expected = (
        "@@ after RayService.spec.env[PERIOD], a copy of [PERIOD]\n+  - name: LAST\n"
        "@@ after RayService.spec.env[LAST].value\n+    more: 1\n"
    )
    assert difference(BASE, text, copied=2) == expected
    assert patched(BASE, expected) == text


def test_what_changes_in_both_changes_no_difference() -> None:
    changed = BASE.replace("'10'", "'20'").replace("spec:\n", "spec:\n  new: 1\n")
    found = difference(BASE, BASE.replace("debug", "info"))
    assert difference(changed, changed.replace("debug", "info")) == found


@pytest.mark.parametrize("changed", [BASE.replace("LOG", "LEVEL"), BASE.replace("debug", "warn")])
def test_a_difference_from_another_base(changed: str) -> None:
    with pytest.raises(DoesNotApplyError):
        patched(changed, difference(BASE, BASE.replace("debug", "info")))


def test_every_difference_is_from_the_base_in_the_table() -> None:
    found = {}
    for file in ROOT.glob("tests/**/golden/**/*.diff"):
        header = HEADER.match(file.read_text(encoding="utf-8"))
        assert header is not None, file
        found[f"{file.parent.name}/{file.stem}.yaml"] = header["base"]
        assert not file.with_suffix(".yaml").exists()
    assert found == BASE_OF

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rayllm_ctl.model.text.unique_keys import unique_key_loader

LOADERS = [yaml.SafeLoader, yaml.CSafeLoader]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", 3),
        ("a:\n- {b: 1,\n   b: 2}\n", 3),
        ('{"a": 1, "a": 1}', 1),
        ("base: &base {a: 1}\nother:\n  <<: *base\n  b: 1\n  b: 2\n", 5),
    ],
)
def test_a_duplicate_key_is_rejected_with_its_line(text: str, line: int, loader: type[Any]) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="duplicate key") as found:
        yaml.load(text, unique_key_loader(yaml, loader))
    mark = found.value.problem_mark
    assert mark is not None
    assert mark.line + 1 == line


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    "text",
    [
        "a: {k: 1}\nb: {k: 2}\n",
        "1: a\n'1': b\n",
        "base: &base {a: 1, b: 2}\nmore: &more\n  <<: *base\n  a: 3\nall:\n  <<: *more\n  b: 4\nagain: {<<: *more}\n",
        "all:\n  <<: &base\n    <<: {a: 1}\n    a: 2\n  b: 3\nmore: *base\n",
    ],
)
def test_other_documents_are_read_as_before(text: str, loader: type[Any]) -> None:
    """Also those whose merged mappings (<<) are overridden."""
    assert yaml.load(text, unique_key_loader(yaml, loader)) == yaml.safe_load(text)

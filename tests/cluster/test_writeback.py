from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.cluster.writeback import same_meaning


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"limits": {"cpu": "1000m", "nvidia.com/gpu": 4}}, {"limits": {"cpu": "1", "nvidia.com/gpu": "4"}}),
        ({"requests": {"memory": "2048Mi"}}, {"requests": {"memory": "2Gi"}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"groups": [{"a": 1}]}, {"groups": [{"a": 1, "scaleStrategy": {}, "template": {"metadata": {}}}]}),
        ({"metadata": {}}, {"metadata": {"creationTimestamp": None}}),
    ],
)
def test_the_same_in_other_words(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert same_meaning(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}),
        ({"limits": {"cpu": "1"}}, {"limits": {}}),
        ({"args": ["1000m"]}, {"args": ["1"]}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "1.0"}]}),
        ({"replicas": 0}, {}),
        ({"enabled": False}, {}),
        ({"text": ""}, {}),
        ({"list": [1, 2]}, {"list": [2, 1]}),
    ],
)
def test_what_is_a_change(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert not same_meaning(ours, theirs)

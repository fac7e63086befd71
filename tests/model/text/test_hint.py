"""Hints: what is to be typed, and remarks."""

from __future__ import annotations

import shlex

import pytest

from rayllm_ctl.model.text.hint import Hint, read_hint
from rayllm_ctl.model.text.json_form import to_json


def test_the_remark_is_a_comment_to_a_shell() -> None:
    text = str(Hint("kubectl cordon n1", "so that the next pod (a head) starts elsewhere"))
    assert shlex.split(text, comments=True) == ["kubectl", "cordon", "n1"]
    assert text.endswith("# so that the next pod (a head) starts elsewhere")


@pytest.mark.parametrize(
    ("hint", "document"),
    [
        (Hint("kubectl get nodes", "their taints"), {"command": "kubectl get nodes", "remark": "their taints"}),
        (Hint("kubectl get nodes"), {"command": "kubectl get nodes"}),
        (Hint("--max-replicas 2"), {"command": "--max-replicas 2"}),
        (Hint(remark="install KubeRay"), {"remark": "install KubeRay"}),
    ],
)
def test_what_a_document_has_of_it(hint: Hint, document: dict[str, str]) -> None:
    assert to_json(hint) == document
    assert read_hint(str(hint)) == hint


def test_a_template() -> None:
    template = Hint("kubectl describe node {node}", "taints of {node}")
    assert template.format(node="n1") == Hint("kubectl describe node n1", "taints of n1")
    assert Hint(remark="wait").format(node="n1") == Hint(remark="wait")

from __future__ import annotations

import pytest

from rayllm_ctl.model.kube import kuberay


def test_names_of_services() -> None:
    assert kuberay.serve_service("qwen") == "qwen-serve-svc"
    assert kuberay.served_by("qwen-serve-svc") == "qwen"
    assert kuberay.served_by("other") == "other"
    assert kuberay.head_service("qwen-bcdfg") == "qwen-bcdfg-head-svc"


def test_selectors() -> None:
    assert kuberay.made_for("qwen") == "ray.io/originated-from-cr-name=qwen"
    assert kuberay.part_of(["b", "a"]) == "ray.io/cluster in (a,b)"
    assert kuberay.part_of([]) == ""


@pytest.mark.parametrize(
    ("name", "cluster", "child"),
    [
        ("qwen-bcdfg", True, True),
        ("qwen-bcdfg-head-zzzzz", False, True),
        ("qwen-serve-svc", False, True),
        ("qwen-2", False, False),
        ("qwen-2-bcdfg", False, False),
        ("qwen", False, False),
        ("my-qwen-bcdfg", False, False),
    ],
)
def test_what_may_have_been_made_for_a_service(name: str, cluster: bool, child: bool) -> None:
    assert kuberay.is_child_cluster(name, "qwen") is cluster
    assert kuberay.is_child(name, "qwen") is child


def test_the_operator() -> None:
    assert kuberay.is_operator({"app.kubernetes.io/name": "kuberay-operator"})
    assert kuberay.is_operator({"app.kubernetes.io/component": "kuberay-operator"})
    assert not kuberay.is_operator({"app.kubernetes.io/name": "kuberay"})

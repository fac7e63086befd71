"""Fields and values that a sweep varies."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.bench.sweep import Axis, in_words, is_variant_name
from rayllm_ctl.model.kube.names import MAX_SERVICE_NAME, service_name_problem
from rayllm_ctl.model.spec.service import LLMService, Model, Scheduling, Toleration
from rayllm_ctl.specfile.vary import field_path, read_values, variants

BASE = LLMService(
    name="a-name-of-a-service-that-is-as-long-as-possible"[:MAX_SERVICE_NAME],
    model=Model("a/b"),
    scheduling=Scheduling(tolerations=(Toleration("x"),)),
)


def axis(field: str, *values: Any) -> Axis:
    return Axis(field, f"--vary {field}=", (field_path(field),), values)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("parallelism.tensor", ("parallelism", "tensor")),
        ("spec.mode", ("mode",)),
        ("engine.args.a.b", ("engine", "args", "a", "b")),
        ("scheduling.nodeSelector.nvidia.com/gpu.product", ("scheduling", "nodeSelector", "nvidia.com/gpu.product")),
        ("models[1].engine.dtype", ("models", 1, "engine", "dtype")),
        ("storage.volumes[0].persistentVolumeClaim.claimName", ("storage", "volumes", 0, "persistentVolumeClaim",
                                                                "claimName")),
        ("gateway", ("gateway",)),
    ],
)  # fmt: skip
def test_paths_are_those_of_the_spec_file(text: str, path: tuple[str | int, ...]) -> None:
    assert field_path(text) == ("spec", *path)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("engine.maxNumSeq", "engine.maxNumSeqs"),
        ("mode.x", "rayllm-ctl explain spec.mode"),
        ("", "rayllm-ctl explain spec"),
        ("engine..dtype", "such as parallelism.tensor or engine.maxNumSeqs"),
        ("models.engine", "rayllm-ctl explain spec.models"),
    ],
)
def test_a_path_that_leads_nowhere(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        field_path(text)
    assert error.value.hints == (hint,)


def test_values_are_those_of_a_yaml_list() -> None:
    assert read_values('1, 2.5,null,yes,"1",{a: [1, 2]}', "--x") == (1, 2.5, None, "yes", "1", {"a": [1, 2]})
    for text in ("", "1,,2", "017", "*a", "1]", "{a: 1, a: 2}", "1 #", "1,1"):
        with pytest.raises(UsageError, match="--x"):
            read_values(text, "--x")


def test_all_combinations_in_order_with_names_that_stay() -> None:
    found = variants(BASE, [axis("parallelism.tensor", 1, 2), axis("scheduling.tolerations[0].key", "x", "y")])
    assert [in_words(one.values) for one in found] == [
        "tensor 1, key x", "tensor 1, key y", "tensor 2, key x", "tensor 2, key y",
    ]  # fmt: skip
    last = found[-1].service
    assert (last.parallelism.tensor, last.scheduling.tolerations[0].key, last.model) == (2, "y", BASE.model)
    assert len({one.name for one in found}) == 4
    assert all(service_name_problem(one.name) is None and is_variant_name(one.name, BASE.name) for one in found)
    assert all(one.service.name == one.name for one in found)
    (again,) = variants(BASE, [axis("parallelism.tensor", 2), axis("scheduling.tolerations[0].key", "y")])
    assert again.name == found[-1].name
    assert not is_variant_name(BASE.name, BASE.name)


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(UsageError) as error:
        variants(BASE, [axis("parallelism.tensor", 0, "a"), axis("replicas.min", 1, 2)])
    lines = error.value.message.splitlines()
    assert lines[0] == "--vary parallelism.tensor=0: must be at least 1, not 0"
    assert '--vary parallelism.tensor=a: expected an integer, found "a"' in lines
    assert any(line.startswith("--vary replicas.min=2: ") or "spec.replicas" in line for line in lines)

"""rayllm_ctl.frozen behaves as dataclasses.dataclass(frozen=True), which it stands in for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar

import pytest

from rayllm_ctl.frozen import dataclass


def shape(decorate: Callable[[type], type]) -> Any:
    class Shape:
        """A class with every kind of field that the project uses."""

        rows: int
        names: tuple[str, ...] = ()
        cache: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    return decorate(Shape)


OURS = shape(lambda cls: dataclass(frozen=True)(cls))
THEIRS = shape(lambda cls: dataclasses.dataclass(frozen=True)(cls))


@pytest.mark.parametrize("cls", [OURS, THEIRS])
def test_equality_and_hash_follow_the_compared_fields(cls: Any) -> None:
    one, same, other = cls(1, ("a",), {"x": 1}), cls(1, ("a",), {"x": 2}), cls(2, ("a",))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert {one, same, other} == {one, other}
    assert one != (1, ("a",))
    assert replace(one, rows=2) == other


def test_the_hash_and_the_text_are_those_of_the_standard_library() -> None:
    assert hash(OURS(1, ("a",))) == hash(THEIRS(1, ("a",)))
    assert repr(OURS(1, ("a",))) == repr(THEIRS(1, ("a",)))
    assert OURS(1) != THEIRS(1)


def test_fields_are_known_to_the_standard_library() -> None:
    assert dataclasses.is_dataclass(OURS)
    assert [(part.name, part.type) for part in dataclasses.fields(OURS)] == [
        (part.name, part.type) for part in dataclasses.fields(THEIRS)
    ]
    assert OURS.__annotations__ == THEIRS.__annotations__


def test_a_class_variable_is_no_field() -> None:
    @dataclass(frozen=True)
    class Counted:
        limit: ClassVar[int] = 3
        count: int = 0

    assert [part.name for part in dataclasses.fields(Counted)] == ["count"]
    assert Counted(2) == Counted(count=2)


def test_arguments_are_those_of_the_standard_library() -> None:
    for cls in (OURS, THEIRS):
        assert cls(rows=1, names=("a",)) == cls(1, ("a",))
        assert cls(1).cache is not cls(1).cache
        for arguments, named in (((), {}), ((1, (), {}, 4), {}), ((1,), {"rows": 2}), ((1,), {"row": 2})):
            with pytest.raises(TypeError, match=r"Shape\.__init__\(\)"):
                cls(*arguments, **named)


def test_all_instances_of_a_class_are_made_alike() -> None:
    cls = shape(lambda cls: dataclass(frozen=True)(cls))
    for rows in range(100):
        for arguments, named in (((rows,), {}), ((), {"names": ("a",), "rows": rows}), ((rows, (), {"x": 1}), {})):
            assert list(vars(cls(*arguments, **named)).items()) == list(vars(THEIRS(*arguments, **named)).items())


def test_a_class_is_filled_by_its_base_and_itself() -> None:
    @dataclass(frozen=True)
    class Base:
        name: str

    @dataclass(frozen=True)
    class Derived(Base):
        size: int = 1
        double: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.size)

    assert repr(Derived("a", size=3)).endswith("Derived(name='a', size=3, double=6)")
    assert Base("a").name == "a"


def test_methods_of_the_class_are_kept() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

    assert repr(Named(name="qwen")) == "qwen"
    with pytest.raises(TypeError):
        Named("qwen")  # type: ignore[call-arg]


def test_classes_that_can_change_are_rejected() -> None:
    with pytest.raises(TypeError, match="not frozen"):
        shape(lambda cls: dataclass(frozen=False)(cls))

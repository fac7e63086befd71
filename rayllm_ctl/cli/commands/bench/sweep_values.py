"""The fields and values that `bench sweep` varies, from its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.json_form import camel

if TYPE_CHECKING:
    from rayllm_ctl.model.bench.sweep import Axis
    from rayllm_ctl.model.text.problems import Path

LISTED: Mapping[str, type] = {
    "parallelism.tensor": int,
    "parallelism.pipeline": int,
    "replicas.fixed": int,
    "accelerator.gpu": str,
    "engine.max_num_seqs": int,
    "engine.quantization": str,
}
"""Fields whose flags take several values, and their type."""

_BOUNDS: tuple[Path, ...] = (("spec", "replicas", "min"), ("spec", "replicas", "max"))


class Varied(click.ParamType[tuple[str, str]]):
    """FIELD=VALUES: the path of a field of the spec, and the text of its values."""

    name = "field=values"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        field, separator, text = str(value).partition("=")
        if not separator or not field.strip():
            self.fail("expected FIELD=VALUE,... such as engine.maxNumSeqs=64,256", param, ctx)
        return field.strip(), text


def axes_of(overrides: Mapping[str, Any], vary: Sequence[tuple[str, str]]) -> tuple[tuple[Axis, ...], dict[str, Any]]:
    """The fields to vary, and the flags that set one value for all variants.

    Raises UsageError for fields that do not exist, values that cannot be read, and a field that is both.
    """
    from rayllm_ctl.model.bench.sweep import Axis
    from rayllm_ctl.specfile.vary import field_path, read_values

    axes = []
    fixed = {field: value for field, value in overrides.items() if field not in LISTED}
    for field, kind in LISTED.items():
        if field in overrides:
            flag = FLAGS[field]
            values = read_values(str(overrides[field]), flag)
            if len(values) == 1:
                fixed[field] = _only(values[0], kind, flag)
                continue
            paths = _BOUNDS if field == "replicas.fixed" else (_path(field),)
            name = "replicas" if field == "replicas.fixed" else _name(paths[0])
            axes.append(Axis(name, f"{flag} ", paths, values))
    for field, text in vary:
        path = field_path(field)
        axes.append(Axis(_name(path), f"--vary {field}=", (path,), read_values(text, f"--vary {field}")))
    for axis in axes:
        for field, value in fixed.items():
            if any(_within(one, path) for one in _set(field, value) for path in axis.paths):
                raise UsageError(
                    f"{FLAGS[field]} and {axis.flag.strip(' =')} set the same field", hint="leave one of them out"
                )
    return tuple(axes), fixed


def _only(value: Any, kind: type, flag: str) -> Any:
    """The single value of a flag, with the same meaning as for `deploy`."""
    if value is not None and type(value) is not kind:
        raise UsageError(f"{flag}: expected {'an integer' if kind is int else 'text'}, found {value}")
    return value


def _path(field: str) -> Path:
    """The path of a flag's field in the spec file."""
    return ("spec", *(camel(part) for part in field.split(".")))


def _set(field: str, value: Any) -> list[Path]:
    """The fields that a flag sets: of a mapping only the keys that it names; --gateway adds a section and sets none."""
    if field == "gateway":
        return []
    if field == "replicas.fixed":
        return list(_BOUNDS)
    if isinstance(value, tuple) and all(isinstance(one, tuple) for one in value):
        return [(*_path(field), key) for key, _ in value]
    return [_path(field)]


def _within(one: Path, other: Path) -> bool:
    return one == other[: len(one)] or other == one[: len(other)]


def _name(path: Path) -> str:
    from rayllm_ctl.model.text.problems import Problem

    return Problem(path, "").where.removeprefix("spec.")

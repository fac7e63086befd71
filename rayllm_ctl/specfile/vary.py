"""Variants of a service: fields of its spec file with other values, each read and validated as the file would be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, get_origin

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.bench.sweep import Axis, Variant, in_words, shown, variant_name
from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.specfile import tree
from rayllm_ctl.specfile.form import Field, element_of, fields_of, spec_fields
from rayllm_ctl.specfile.reader import read_document
from rayllm_ctl.specfile.tree import Keys, TreeNode
from rayllm_ctl.specfile.write import to_document

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([0-9]+)\]")


def read_values(text: str, source: str) -> tuple[Any, ...]:
    """The values of V1,V2,...: a YAML list without its brackets. UsageError, with `source`, for what is none."""
    root = tree.read_tree(f"[{text}]", source)
    found: list[Any] = tree.plain(root)
    if not found:
        raise UsageError(f"{source}: there is no value", hint=f"{source}=V1,V2")
    twice = next((value for place, value in enumerate(found) if value in found[:place]), _NOTHING)
    if twice is not _NOTHING:
        raise UsageError(f"{source}: {shown(twice)} is there twice", hint="leave one of them out")
    return tuple(found)


_NOTHING = object()


def field_path(text: str) -> Path:
    """Where a field stands in the spec file: models[0].parallelism.tensor, with or without spec. in front.

    UsageError if there is no such field. Keys below a mapping, such as engine.args, may be any.
    """
    rest = text.removeprefix("spec.")
    fields: Mapping[str, Field] = spec_fields()
    path: list[str | int] = ["spec"]
    while rest:
        name, rest = _step(text, rest)
        if name not in fields:
            raise _unknown(text, str(name), path, fields)
        path.append(name)
        found = fields[str(name)]
        fields, kind = {}, found.kind
        if get_origin(kind) is tuple and rest.startswith("["):
            index, rest = _step(text, rest)
            path.append(index)
            kind = element_of(kind)
        if found.wrapped:
            fields = {found.wrapped: Field("value", str, False, True)}
        elif hasattr(kind, "__dataclass_fields__"):
            fields = fields_of(kind)
        elif get_origin(kind) is Mapping and rest:
            # The keys of labels have dots of their own; what is below engine.args is nested.
            keys = rest.removeprefix(".")
            return (*path, *(keys.split(".") if element_of(kind) is Any else [keys]))
    if len(path) == 1:
        raise _unknown(text, text, path, fields)
    return tuple(path)


def variants(base: LLMService, axes: Sequence[Axis]) -> tuple[Variant, ...]:
    """Every combination of the values, the last axis changing fastest. UsageError with all that is wrong with them."""
    for place, axis in enumerate(axes):
        for other in axes[:place]:
            if any(_overlap(one, two) for one in axis.paths for two in other.paths):
                raise UsageError(
                    f"{axis.flag.strip(' =')} and {other.flag.strip(' =')} vary the same field",
                    hint="leave one of them out",
                )
    document = to_document(base)
    found, lines, hints = [], dict[str, None](), dict[str, None]()
    for combination in product(*(axis.values for axis in axes)):
        values = {axis.name: value for axis, value in zip(axes, combination, strict=True)}
        name = variant_name(base.name, values)
        changed: Any = {**document, "metadata": {**document["metadata"], "name": name}}
        for axis, value in zip(axes, combination, strict=True):
            for path in axis.paths:
                changed = _with(changed, path, value, axis)
        service, problems = read_document(_node(changed), LLMService)
        problems = problems if service is None else validate(service)
        lines |= dict.fromkeys(_lines(problems, axes, combination, values))
        hints |= dict.fromkeys(problem.hint for problem in problems if problem.hint)
        if service is not None:
            found.append(Variant(name, values, service))
    if lines:
        raise UsageError("\n".join(lines), hint=tuple(hints) or "rayllm-ctl explain spec --recursive")
    return tuple(found)


def _step(text: str, rest: str) -> tuple[str | int, str]:
    match = _STEP.match(rest)
    if match is None:
        raise UsageError(f'"{text}" is not the path of a field', hint="such as parallelism.tensor or engine.maxNumSeqs")
    return (match[1] if match[2] is None else int(match[2])), rest[match.end() :]


def _unknown(text: str, name: str, path: Sequence[str | int], fields: Mapping[str, Field]) -> UsageError:
    where = Problem(tuple(path), "").where
    close = nearest(name, fields)
    return UsageError(
        f'"{text}": field "{name}" does not exist in {where}' if fields else f'"{text}": {where} has no fields',
        hint=f"{where.removeprefix('spec').lstrip('.')}.{close}".lstrip(".")
        if close
        else f"rayllm-ctl explain {where}",
    )


def _overlap(one: Path, other: Path) -> bool:
    """Whether one field is the other, or lies in it."""
    return all(first == second for first, second in zip(one, other, strict=False))


def _with(node: Any, path: Path, value: Any, axis: Axis) -> Any:
    """Plain data with the value at `path`; sections that are missing are added, elements of lists are not."""
    if not path:
        return value
    head, *rest = path
    if isinstance(head, int):
        if not isinstance(node, list) or head >= len(node):
            raise UsageError(
                f"{axis.flag.strip(' =')}: the spec has no element [{head}] there", hint="lists are counted from 0"
            )
        return [*node[:head], _with(node[head], tuple(rest), value, axis), *node[head + 1 :]]
    section = node if isinstance(node, Mapping) else {}
    return {**section, head: _with(section.get(head), tuple(rest), value, axis)}


def _node(data: Any) -> TreeNode:
    """Plain data as a tree, as if all of it stood in line 1."""
    if isinstance(data, Mapping):
        keys = Keys()
        for key, value in data.items():
            keys.declare(key, 1, "")
            keys[key] = _node(value)
        return TreeNode(keys, 1)
    return TreeNode([_node(item) for item in data], 1) if isinstance(data, list) else TreeNode(data, 1)


def _lines(
    problems: Iterable[Problem], axes: Sequence[Axis], combination: Sequence[Any], values: Mapping[str, Any]
) -> Iterator[str]:
    """Problems by the flag that sets the field, or by the variant that has them."""
    for problem in problems:
        for axis, value in zip(axes, combination, strict=True):
            if any(problem.path[: len(path)] == path for path in axis.paths):
                yield f"{axis.flag}{shown(value)}: {problem.message}"
                break
        else:
            yield f"{in_words(values)}: {problem}"

"""A tree of nodes to an LLMService or a BatchJob, field by field, with everything that has the wrong shape or type.

What values make sense together is checked in rayllm_ctl.model.spec.checks.service, which flags share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.kube.quantities import parse_duration
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.spec.service import KIND
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.patterns import Pattern
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.specfile.form import Field, element_of, fields_of, metadata_fields, spec_fields
from rayllm_ctl.specfile.tree import Keys, TreeNode, plain

_SCALARS: dict[Any, tuple[type | tuple[type, ...], str]] = {
    str: (str, "a string"),
    int: (int, "an integer"),
    float: ((int, float), "a number"),
    bool: (bool, "true or false"),
}
_WRITTEN_NUMBER = Pattern(r"(\d{1,15})([kK]?)")
T = TypeVar("T")

_ELSEWHERE: Mapping[tuple[str, ...], str] = {
    (
        "spec",
        "storage",
        "model",
        "claim",
        "create",
    ): "spec.storage.model.mirror.to.claim.create    # a new claim is empty, and a mirror downloads the model into it"
}
"""Fields that stand in another section, and what to write instead."""

_DOCUMENT = ("apiVersion", "kind", "metadata", "spec")


def read_document(root: TreeNode, kind: type[T]) -> tuple[T | None, list[Problem]]:
    """What the document, a mapping, describes; None if there are problems. kind: a dataclass of the model."""
    reader = _Reader("" if kind.__name__ == KIND else f"{kind.__name__.lower()}.")
    reader.keys(root.value, _DOCUMENT, _DOCUMENT, ())
    metadata = reader.fields(root.value.get("metadata"), metadata_fields(kind), ("metadata",))
    spec = reader.fields(root.value.get("spec"), spec_fields(kind), ("spec",))
    return (None if reader.problems else kind(**metadata, **spec)), reader.problems


class _Reader:
    """Collects problems; a value with problems is returned as it happens to be."""

    def __init__(self, prefix: str) -> None:
        """prefix: of the paths of this kind in `rayllm-ctl explain`."""
        self.problems: list[Problem] = []
        self._prefix = prefix
        self._maps: set[Path] = set()

    def keys(self, mapping: Keys, known: Iterable[str], required: Iterable[str], path: Path) -> None:
        """Report the keys that `mapping` must not have, and those that it lacks."""
        for key in mapping:
            if key not in known:
                moved = _ELSEWHERE.get(tuple(part for part in (*path, key) if isinstance(part, str)))
                hint = moved or did_you_mean(key, known) or self._explain(path)
                self._problem((*path, key), "unknown field", hint)
        for key in required:
            if key not in mapping:
                self._problem((*path, key), "required field is missing", self._explain((*path, key)))

    def fields(self, node: TreeNode | None, fields: Mapping[str, Field], path: Path) -> dict[str, Any]:
        """The values of a mapping's fields by their Python names, without those that are not given."""
        if node is None:
            return {}
        if not isinstance(node.value, Keys):
            self._unexpected("a mapping", node, path)
            return {}
        mapping = node.value
        self.keys(mapping, fields, [key for key, field in fields.items() if field.required], path)
        found = {
            field.name: self._field(mapping[key], field, (*path, key))
            for key, field in fields.items()
            if key in mapping
        }
        for key, field in fields.items():
            if field.instead and found.get(field.name) is not None:
                found |= self._instead(found, key, field, path)
        return found

    def _instead(self, found: Mapping[str, Any], key: str, field: Field, path: Path) -> dict[str, Any]:
        """The values of the fields in place of which `field` stands."""
        for name in field.instead:
            if name in found:
                self._problem((*path, camel(name)), f"cannot be combined with {Problem((*path, key), '').where}")
        return dict.fromkeys(field.instead, found[field.name])

    def _field(self, node: TreeNode, field: Field, path: Path) -> Any:
        if node.value is None and field.nullable:
            return None
        if field.wrapped:
            return self.fields(node, {field.wrapped: Field("value", field.kind, False, True)}, path).get("value")
        if field.unit is Unit.SECONDS and isinstance(node.value, str):
            return self._duration(node.value, path)
        if field.unit is Unit.LENGTHS and isinstance(node.value, str) and ":" in node.value:
            return node.value
        if field.unit is Unit.QUANTITY and _is_number(node.value):
            return str(node.value)
        if node.value is None and field.may_be_empty:
            node = TreeNode([] if get_origin(field.kind) is tuple else Keys(), node.line)
        return self._value(node, field.kind, path)

    def _value(self, node: TreeNode, kind: Any, path: Path) -> Any:
        value, element = node.value, element_of(kind)
        if kind is Any:
            return plain(node)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self._section(node, kind, path)
        if get_origin(kind) is Literal:
            return self._choice(node, get_args(kind), path)
        if get_origin(kind) is tuple:
            if not isinstance(value, list):
                return self._unexpected("a list", node, path)
            return tuple(self._value(item, element, (*path, index)) for index, item in enumerate(value))
        if element is not None:
            if not isinstance(value, Keys):
                return self._unexpected("a mapping", node, path)
            self._maps.add(path)
            return {key: self._value(item, element, (*path, key)) for key, item in value.items()}
        types, expected = _SCALARS[kind]
        if kind is int and isinstance(value, float) and value.is_integer():
            return int(value)  # 1e+06, as Helm writes large integers; the API server takes it as well
        if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
            return self._unexpected(expected, node, path, repeat=kind is not str)
        if kind is float and isinstance(value, int) and abs(value) >= 2**63:  # may be more than a float can be
            self._problem(path, f"must be less than {2**63}")
            return 0.0
        return value

    def _section(self, node: TreeNode, kind: type, path: Path) -> Any:
        before = len(self.problems)
        values = self.fields(node, fields_of(kind), path)
        return kind(**values) if len(self.problems) == before else None

    def _choice(self, node: TreeNode, choices: tuple[str, ...], path: Path) -> Any:
        if node.value not in choices:
            self._problem(
                path,
                f"{shown(node.value)} is not supported (supported values: {', '.join(choices)})",
                did_you_mean(str(node.value), choices),
            )
        return node.value

    def _duration(self, text: str, path: Path) -> float:
        try:
            return parse_duration(text)
        except ValueError as error:
            self._problem(path, str(error))
            return 0.0

    def _unexpected(self, expected: str, node: TreeNode, path: Path, *, repeat: bool = False) -> None:
        """A string in the place of a mapping may be a token in the place of a reference to one: it is not repeated."""
        value = node.value
        found = "a string" if isinstance(value, str) and not repeat else shown(value)
        if expected == "a string" and isinstance(value, (bool, int, float)):
            hint = f'quote it: {path[-1]}: "{found}"'
        elif expected in ("an integer", "a number") and isinstance(value, str) and (number := _number(value)):
            hint = f"{path[-1]}: {number}"
        else:
            hint = self._explain(path)
        self._problem(path, f"expected {expected}, found {found}", hint)

    def _explain(self, path: Path) -> str:
        """The command that explains a field, or the mapping that it is a key of."""
        ends = next((end for end in range(len(path)) if path[:end] in self._maps), len(path))
        names = ".".join(part for part in path[:ends] if isinstance(part, str))
        return f"rayllm-ctl explain {self._prefix}{names}".rstrip(" .")

    def _problem(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(Problem(path, message, hint))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(text: str) -> str:
    """The number that a text means, as --max-model-len takes it: 32k (32,000) and 32K (32,768); empty if it is none."""
    found = _WRITTEN_NUMBER.fullmatch(text.strip())
    if found is None:
        return ""
    factor = {"": 1, "k": 1000, "K": 1024}[found[2]]
    return found[1] if factor == 1 else str(int(found[1]) * factor)


def shown(value: Any) -> str:
    """A value as an error names it: itself where it is short, else what kind of thing it is."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return str(value)
    return f'"{value}"' if len(value) <= 40 and value.isprintable() else "a string"

"""Every field of the spec, found by the spec's own schema in the golden specs: wrong types and hostile text.

A golden spec has to have each field (tests/render/test_specs.py), so a new field is covered as soon as it exists.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_origin

import pytest
import yaml

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.form import Unit
from rayllm_ctl.model.text.yaml_text import dump, dump_all
from rayllm_ctl.render.manifests import render
from rayllm_ctl.specfile import load, tree
from rayllm_ctl.specfile.form import Field, element_of, fields_of, metadata_fields, spec_fields
from rayllm_ctl.specfile.write import to_yaml
from rayllm_ctl.workflows.plan.model import make_plan

SPECS = sorted((Path(__file__).parents[1] / "render" / "specs").glob("*.yaml"))
Path_ = tuple[str | int, ...]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

WRONG: Mapping[Any, tuple[Any, ...]] = {
    str: (7, True, [], {}),
    int: ("seven", 1.5, True, []),
    float: ("seven", False, {}),
    bool: ("yes", 1, []),
    Literal: ("nonsense", 3, [], {}),
    tuple: ("text", {"a": 1}, 5),
    Mapping: ("text", [1], 5),
    "section": ("text", [1], 5),
}
HOSTILE = (
    "'\"\\ \n- a: b\n{{ x }}{% raw %}{# c #}\t\u2028\x85é漢😀 # ${A} $(B)\n---\n" + "x" * 10_240,
    "'\"{{ x }} {% raw %} a: b # é漢😀 ${A}" + "x" * 10_240,
)
"""What could end a quoted value or start a template's tag or a document. Variables cannot hold the first."""


FORMS = [
    form.replace("$", dollar)
    for text in HOSTILE
    for form in (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    for dollar in ("$", "$$")
]
"""How such a text is found in an object: JSON in an argument of vLLM, and `$` doubled where Kubernetes expands it."""


@functools.cache
def document(spec: Path) -> Any:
    return tree.plain(tree.read_tree(spec.read_text(encoding="utf-8"), spec.name))


def members(value: Any, kind: Any, path: Path_) -> Iterator[tuple[Path_, Field | None, Any]]:
    """The path and kind of `value` and of all that it holds; the field for those that are one."""
    element = element_of(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        yield from of_fields(value, fields_of(kind), path)
    elif element is not None and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield (*path, key), None, element
            yield from members(item, element, (*path, key))


def of_fields(value: Any, fields: Mapping[str, Field], path: Path_ = ()) -> Iterator[tuple[Path_, Field | None, Any]]:
    for key, field in fields.items():
        if key in value and value[key] is not None:
            yield (*path, key), field, "section" if field.wrapped else field.kind
            if field.wrapped:
                yield (*path, key, field.wrapped), None, field.kind
            else:
                yield from members(value[key], field.kind, (*path, key))


def every(spec: Any) -> Iterator[tuple[Path_, Field | None, Any]]:
    yield from of_fields(spec["metadata"], metadata_fields(), ("metadata",))
    yield from of_fields(spec["spec"], spec_fields(), ("spec",))


def changed(spec: Any, changes: Mapping[Path_, Any]) -> Any:
    made = copy.deepcopy(spec)
    for path, value in changes.items():
        *way, last = path
        at = made
        for step in way:
            at = at[step]
        at[last] = value
    return made


def wrong(field: Field | None, kind: Any, number: int) -> Any:
    """A value of a wrong type for the field; None where every type is right."""
    if field is not None and field.unit is not None:
        return (True, [], {}, "soon")[number % (4 if field.unit is Unit.SECONDS else 3)]
    section = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    values = WRONG.get("section" if section else get_origin(kind) or kind, ())
    return values[number % len(values)] if values else None


def problems(text: str) -> list[tuple[int, str]]:
    """Line and path of each problem of a spec file: every line of the error has both."""
    with pytest.raises(UsageError) as caught:
        load(text, source="q.yaml")
    found = [re.match(r"q\.yaml:(\d+): ([\w.\[\]/-]+): \S", line) for line in caught.value.message.split("\n")]
    assert all(found), caught.value.message[:2000]
    return sorted((int(one[1]), one[2]) for one in found if one)


def shown(path: Path_) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_each_value_of_a_wrong_type_is_one_line(spec: Path) -> None:
    whole = document(spec)
    known = list(every(whole))
    inner = {path for path, _, _ in known if not any(other[: len(path)] == path != other for other, _, _ in known)}
    # The deepest values together, and each section, list and mapping in the place of all that it holds.
    together: dict[Path_, Any] = {}
    apart: list[dict[Path_, Any]] = [together]
    for number, (path, field, kind) in enumerate(known):
        bad = wrong(field, kind, number)
        if bad is not None and path in inner:
            together[path] = bad
        elif bad is not None and len(path) > 1 and (number + len(spec.stem)) % 6 == 0:
            apart.append({path: bad})
    for changes in filter(None, apart):
        text = dump(changed(whole, changes), sort=False)
        lines = text.splitlines()
        found = problems(text)
        assert sorted(where for _, where in found) == sorted(map(shown, changes))
        for line, where in found:
            key = re.sub(r"(\[\d+\])+$", "", where).rpartition(".")[2]
            assert key in lines[line - 1] or lines[line - 1].lstrip().startswith("-"), (where, lines[line - 1])


def texts_of(spec: Any) -> Iterator[Path_]:
    """The path of every string that is not one of a few, nor a number with a unit; one of those in a raw part."""
    for path, field, kind in every(spec):
        if kind is str and not (field and field.unit):
            yield path
        elif kind is Any:
            yield from ((*path, *below) for below in islice(strings(at(spec, path)), 1))


def strings(value: Any) -> Iterator[Path_]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from ((key, *below) for below in strings(item))
    if isinstance(value, str):
        yield ()


def at(value: Any, path: Path_) -> Any:
    return functools.reduce(lambda found, step: found[step], path, value)


def taken(whole: Any, path: Path_) -> str | None:
    """The first hostile text that is rendered. No other error than one for users is caught."""
    for text in HOSTILE:
        with suppress(UserError):
            render(make_plan(load(dump(changed(whole, {path: text}), sort=False), source="q.yaml"), OFFLINE))
            return text
    return None


def laid_out(whole: Any, texts: Mapping[Path_, str]) -> list[Any]:
    """The objects of a spec with these texts, as a YAML reader sees what is printed; Serve's configuration as well."""
    service = load(dump(changed(whole, texts), sort=False), source="q.yaml")
    assert load(to_yaml(service), source="q.yaml") == service
    objects = list(yaml.load_all(dump_all(render(make_plan(service, OFFLINE))), Loader=LOADER))
    for item in objects:
        if "serveConfigV2" in item.get("spec", {}):
            item["spec"]["serveConfigV2"] = yaml.load(item["spec"]["serveConfigV2"], Loader=LOADER)
    return objects


def benign(value: Any) -> Any:
    """`value` with a harmless word in the place of every hostile text."""
    if isinstance(value, str):
        named = re.sub(r"-model-[0-9a-f]{8}\b", "-model-digest", value)  # the name of what contains the texts
        return functools.reduce(lambda found, text: found.replace(text, "benign"), FORMS, named)
    if isinstance(value, list):
        return [benign(item) for item in value]
    return {key: benign(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_text_arrives_as_it_is_and_adds_nothing() -> None:
    seen: set[str] = set()
    held = []
    for spec in SPECS:
        whole = document(spec)
        fields = {re.sub(r"\[\d+\]", "[]", shown(path)): path for path in texts_of(whole)}
        new = {path: taken(whole, path) for name, path in fields.items() if name not in seen}
        seen |= set(fields)
        texts = {path: text for path, text in new.items() if text is not None}
        if texts:
            hostile = laid_out(whole, texts)
            assert benign(hostile) == benign(laid_out(whole, dict.fromkeys(texts, "benign"))), spec.name
            held += [shown(path) for path in texts]
    assert {"spec.engine.env.EMPTY", "spec.pods.worker.env[0].value"} <= set(held), held

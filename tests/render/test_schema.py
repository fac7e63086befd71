"""The schema check agrees with a validator of the whole of JSON Schema about damaged manifests."""

from __future__ import annotations

import copy
import json
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import check
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

SCHEMA = json.loads(resources.files("rayllm_ctl.render").joinpath("schemas", "rayservice-v1.json").read_text())
REFERENCE = jsonschema_rs.validator_for(SCHEMA)
IMPLEMENTED = {
    "$defs", "$ref", "additionalProperties", "const", "enum", "items", "maxItems", "maxLength", "maximum", "minItems",
    "minLength", "minimum", "pattern", "properties", "required", "type",
}  # fmt: skip
[MANIFEST] = render(plan(GPU, H100, tensor=4))


def accepted(manifest: dict[str, Any]) -> bool:
    try:
        check(manifest, RAY_SERVICE.schema)
    except UserError:
        return False
    return True


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value below `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *places(item, (*path, key)))]


def keywords(schema: Any) -> set[str]:
    """The keywords that a schema uses."""
    found = set(schema)
    for key in ("properties", "$defs"):
        for part in schema.get(key, {}).values():
            found |= keywords(part)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found |= keywords(schema[key])
    return found


def test_every_keyword_of_the_schema_is_checked() -> None:
    assert keywords(SCHEMA) <= IMPLEMENTED


def test_the_manifest_itself_is_accepted() -> None:
    assert accepted(MANIFEST)
    assert REFERENCE.is_valid(MANIFEST)


@settings(max_examples=80)
@given(
    st.sampled_from([path for path in places(MANIFEST) if path not in (("kind",), ("apiVersion",))]),
    st.sampled_from([None, True, 0, -1, 2**40, 1.5, "", "x", [], [1], {}, {"x": 1}, "delete", "rename"]),
)
def test_damage_is_found_where_a_full_validator_finds_it(path: tuple[Any, ...], damage: Any) -> None:
    manifest = copy.deepcopy(MANIFEST)
    parent: Any = manifest
    for part in path[:-1]:
        parent = parent[part]
    if damage in ("delete", "rename"):
        value = parent.pop(path[-1])
        if damage == "rename" and isinstance(parent, dict):
            parent["misspelled"] = value
    else:
        parent[path[-1]] = damage
    assert accepted(manifest) == REFERENCE.is_valid(manifest)


def test_every_problem_is_named_with_its_place() -> None:
    manifest = copy.deepcopy(MANIFEST)
    group = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    group["maxReplicas"], group["replicaz"] = "2", 1
    with pytest.raises(UserError) as caught:
        check(manifest, RAY_SERVICE.schema)
    place = "RayService.spec.rayClusterConfig.workerGroupSpecs[0]"
    assert f'{place}.maxReplicas: "2" is not of type integer' in caught.value.message
    assert f"{place}.replicaz: unknown field" in caught.value.message

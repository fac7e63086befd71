"""The schema check agrees with a validator of the whole of JSON Schema about damaged manifests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.render import render
from rayllm_ctl.render.schema import schema_problems
from tests.render.plans import H100, plan
from tests.render.test_render import GPU
from tests.tokens import without_token

SCHEMAS = json.loads(resources.files("rayllm_ctl.render").joinpath("schemas", "manifests.json").read_text())
IMPLEMENTED = {
    "additionalProperties", "enum", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
    "pattern", "properties", "required", "type",
}  # fmt: skip
OWN = {"keys", "quantity"}
"""Keywords of our own: which fields tell the items of a list apart, and what is a quantity."""


def reference(schema: Any) -> Any:
    """A compact schema as JSON Schema has it."""
    if isinstance(schema, str):
        return {"$ref": f"#/$defs/{schema}"}
    if not isinstance(schema, dict):
        return schema
    result = {key: value for key, value in schema.items() if key not in OWN}
    result |= {key: reference(schema[key]) for key in ("items", "additionalProperties") if key in schema}
    if "properties" in schema:
        result["properties"] = {name: reference(part) for name, part in schema["properties"].items()}
    return result


DEFINITIONS = {name: reference(part) for name, part in SCHEMAS["parts"].items()}
RAY_SERVICE = reference(SCHEMAS["kinds"]["ray.io/v1 RayService 1.6"])
REFERENCE = jsonschema_rs.validator_for({**RAY_SERVICE, "$defs": DEFINITIONS})
[MANIFEST] = render(plan(GPU, H100, tensor=4))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value below `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *places(item, (*path, key)))]


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in `schema` that is written out there."""
    if isinstance(schema, dict):
        yield schema
        for child in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
            yield from parts(child)


def test_every_keyword_is_checked_and_every_part_is_used() -> None:
    written = [part for top in (*SCHEMAS["parts"].values(), *SCHEMAS["kinds"].values()) for part in parts(top)]
    assert set().union(*written) <= IMPLEMENTED | OWN
    named = {name for part in written for name in _references(part)}
    assert named | {top for top in SCHEMAS["kinds"].values() if isinstance(top, str)} == set(SCHEMAS["parts"])


def _references(part: dict[str, Any]) -> Iterator[str]:
    children = (*part.get("properties", {}).values(), part.get("items"), part.get("additionalProperties"))
    return (child for child in children if isinstance(child, str))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_kuberay_accepts_the_manifest(version: str) -> None:
    [manifest] = without_token([MANIFEST]) if version == "1.4" else [MANIFEST]
    assert schema_problems(manifest, version) == []
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
    assert (schema_problems(manifest) == []) == REFERENCE.is_valid(manifest)


def test_every_problem_is_named_with_its_place() -> None:
    manifest = copy.deepcopy(MANIFEST)
    group = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    group["maxReplicas"], group["minReplicaz"] = "2", 1
    ports = group["template"]["spec"]["containers"][0]["ports"]
    ports.append({**ports[0], "protocol": "TCP"})
    place = "spec.rayClusterConfig.workerGroupSpecs[0]"
    assert {str(problem) for problem in schema_problems(manifest)} == {
        f'{place}.maxReplicas: "2" is not of type integer',
        f"{place}.minReplicaz: unknown field",
        f'{place}.template.spec.containers[0].ports[1]: duplicate item (containerPort 8000, protocol "TCP")',
    }
    assert [problem.hint for problem in schema_problems(manifest) if problem.hint] == ["did you mean minReplicas?"]


INCREMENTAL = {"gatewayClassName": "x", "intervalSeconds": 5, "stepSizePercent": 5}


@pytest.mark.parametrize(
    ("path", "value", "since"),
    [
        (("spec", "upgradeStrategy"), {"clusterUpgradeOptions": INCREMENTAL}, "1.5"),
        (("spec", "rayClusterConfig", "authOptions"), {"mode": "token"}, "1.5"),
        (("spec", "rayClusterDeletionDelaySeconds"), 5, "1.5"),
        (("spec", "suspend"), False, "1.7"),
    ],
)
def test_a_field_is_known_from_its_version_on(path: tuple[str, ...], value: Any, since: str) -> None:
    manifest = copy.deepcopy(MANIFEST)
    parent = manifest
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    assert [version for version in VERSIONS if not schema_problems(manifest, version)] == [
        version for version in VERSIONS if version >= since
    ]


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: http}]}}", ""),
        ("{apiVersion: v1, kind: Service, spec: {ports: [{prt: 80}]}}", "spec.ports[0].port: required field"),
        ("{apiVersion: v1, kind: Service, metadata: {lables: {}}}", "metadata.lables: unknown field"),
        ("{apiVersion: v1, kind: ConfigMap, data: {a: 1}}", "data.a: 1 is not of type string"),
        ("{apiVersion: v1, kind: ServiceAccount, automountServiceAccountToken: false}", ""),
        (
            "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {matchLabel: {}}}}",
            "spec.podSelector.matchLabel: unknown field",
        ),
        (
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {maxUnavailable: 50%, minAvailable: 1.5}}",
            "spec.minAvailable: 1.5 is not of type integer or string",
        ),
        (
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{http: {paths: [{path: /}]}}]}}",
            "spec.rules[0].http.paths[0].pathType: required field is missing",
        ),
        (
            "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, spec: {hostnames: [UPPER]}}",
            'spec.hostnames[0]: "UPPER" does not match',
        ),
        (
            "{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, spec: {selector: {}, podMetricsEndpoint: []}}",
            "spec.podMetricsEndpoint: unknown field",
        ),
        (
            "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, spec: {endpoints: [{port: 8}]}}",
            "spec.endpoints[0].port: 8 is not of type string",
        ),
        (
            "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{image: x}]}}}}",
            "spec.template.spec.containers[0].name: required field is missing",
        ),
        ("{apiVersion: example.com/v1, kind: Unknown, anything: 1}", ""),
    ],
)  # fmt: skip
def test_other_kinds(manifest: str, problem: str) -> None:
    found = schema_problems({"metadata": {"name": "x"}, **yaml.safe_load(manifest)})
    assert any(str(one).startswith(problem) for one in found) if problem else found == []

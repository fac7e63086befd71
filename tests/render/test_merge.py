"""Strategic merge patches, as `kubectl patch --local --type=strategic` v1.36.2 applies them, but for the order."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.render.merge import PatchError, strategic_merge

CONTAINER = yaml.safe_load("""
name: ray
image: one
args: [a, b]
env: [{name: A, value: "1"}, {name: B, value: "2"}]
ports: [{name: serve, containerPort: 8000}, {name: metrics, containerPort: 8080}]
volumeMounts: [{name: models, mountPath: /models}]
resources: {limits: {memory: 8Gi}}
""")
POD = {
    "metadata": {"labels": {"x": "1", "w": "2"}},
    "spec": {
        "containers": [CONTAINER],
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
        "imagePullSecrets": [{"name": "one"}],
    },
}


def spec(patch: str) -> Any:
    return strategic_merge(POD, {"spec": yaml.safe_load(patch)})["spec"]


def container(patch: str) -> Any:
    [merged] = spec(f"containers: [{{name: ray, {patch}}}]")["containers"]
    return merged


def test_fields_of_a_container_are_merged() -> None:
    assert container("image: two, args: [c]") == {**CONTAINER, "image": "two", "args": ["c"]}
    assert container("resources: {limits: {cpu: 4}}")["resources"] == {"limits": {"memory": "8Gi", "cpu": 4}}


def test_a_sidecar_goes_behind_the_ray_container() -> None:
    assert [box["name"] for box in spec("containers: [{name: proxy, image: two}]")["containers"]] == ["ray", "proxy"]
    assert spec("initContainers: [{name: get}]")["initContainers"] == [{"name": "get"}]


@pytest.mark.parametrize(
    ("patch", "merged"),
    [
        ("env: [{name: B, value: '3'}]", [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]),
        ("env: [{name: A, $patch: delete}]", [{"name": "B", "value": "2"}]),
        ("env: [{$patch: replace}, {name: C, value: '4'}]", [{"name": "C", "value": "4"}]),
        ("env: [{$patch: delete}]", None),
        ("env: null", None),
        (
            "ports: [{containerPort: 8080, protocol: UDP}]",
            [
                {"name": "serve", "containerPort": 8000},
                {"name": "metrics", "containerPort": 8080, "protocol": "UDP"},
            ],
        ),
        ("volumeMounts: [{mountPath: /models, name: x}]", [{"name": "x", "mountPath": "/models"}]),
    ],
)
def test_lists_of_a_container_merge_by_their_keys(patch: str, merged: Any) -> None:
    assert container(patch).get(patch.partition(":")[0]) == merged


def test_lists_of_a_pod_merge_by_their_keys_or_are_replaced() -> None:
    assert spec("tolerations: [{key: team}]")["tolerations"] == [{"key": "team"}]
    assert spec("imagePullSecrets: [{name: two}]")["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert spec("topologySpreadConstraints: [{topologyKey: zone, maxSkew: 2}]")["topologySpreadConstraints"] == [
        {"topologyKey": "zone", "maxSkew": 2}
    ]
    assert spec("volumes: [{name: models, persistentVolumeClaim: null, emptyDir: {}}]")["volumes"] == [
        {"name": "models", "emptyDir": {}}
    ]
    assert spec("volumes: [{name: models, $patch: replace, emptyDir: {}}]")["volumes"] == [
        {"name": "models", "emptyDir": {}}
    ]


def test_null_and_directives_on_mappings() -> None:
    def labels(patch: Any) -> Any:
        return strategic_merge(POD, {"metadata": {"labels": patch}})["metadata"].get("labels")

    assert labels({"x": None, "z": "3"}) == {"w": "2", "z": "3"}
    assert labels({"$patch": "replace", "z": "3"}) == {"z": "3"}
    assert labels({"$patch": "delete"}) is None


def test_ports_mean_something_else_in_other_kinds() -> None:
    service = {"spec": {"ports": [{"port": 80, "targetPort": 8000}, {"port": 90}]}}
    merged = strategic_merge(service, {"spec": {"ports": [{"port": 80, "targetPort": 1}]}})
    assert merged["spec"]["ports"] == [{"port": 80, "targetPort": 1}, {"port": 90}]
    policy = {"spec": {"ingress": [{"ports": [{"port": 80}, {"port": 90}]}]}}
    merged = strategic_merge(policy, {"spec": {"ingress": [{"ports": [{"port": 1}]}]}})
    assert merged["spec"]["ingress"] == [{"ports": [{"port": 1}]}]


def test_pod_templates_of_a_ray_cluster_merge_as_pods_do() -> None:
    groups = [{"groupName": name, "minReplicas": 1, "template": POD} for name in ("a", "b")]
    service = {"spec": {"rayClusterConfig": {"workerGroupSpecs": groups}}}
    patch = {"groupName": "b", "template": {"spec": {"containers": [{"name": "ray", "image": "two"}]}}}
    merged = strategic_merge(service, {"spec": {"rayClusterConfig": {"workerGroupSpecs": [patch]}}})
    first, second = merged["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert first == groups[0]
    assert second["minReplicas"] == 1
    assert second["template"]["spec"]["containers"] == [{**CONTAINER, "image": "two"}]


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            ("spec", "containers", 0),
            "requires name: items of containers are merged by it",
        ),
        (
            {"spec": {"nodeSelector": {"$patch": "remove"}}},
            ("spec", "nodeSelector", "$patch"),
            '"remove" is not supported (supported values: delete, replace, merge)',
        ),
        (
            {"spec": {"$setElementOrder/containers": []}},
            ("spec", "$setElementOrder/containers"),
            "this directive is not supported",
        ),
        (
            {"spec": {"tolerations": [{"key": "a", "$patch": "delete"}]}},
            ("spec", "tolerations", 0),
            "tolerations is replaced as a whole, so its items cannot have a directive",
        ),
        ({"$patch": "delete"}, ("$patch",), '"delete" is not supported for a whole object'),
    ],
)
def test_what_cannot_be_merged_is_named(patch: Any, path: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PatchError) as raised:
        strategic_merge(POD, patch)
    assert (raised.value.problem.path, raised.value.problem.message) == (path, message)


PATCHES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), PATCHES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_patch_holds_afterwards_and_changes_nothing_twice(base: Any, patch: Any) -> None:
    before = copy.deepcopy((base, patch))
    merged = strategic_merge(base, patch)
    assert (base, patch) == before
    assert strategic_merge(merged, patch) == merged
    for name, value in base.items():
        if name not in patch:
            assert merged[name] == value
    for name, value in patch.items():
        if value is None:
            assert name not in merged
        elif not isinstance(value, (dict, list)):
            assert merged[name] == value

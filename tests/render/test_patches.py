"""spec.patches: which objects they change, and what is said of those that cannot be applied."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.patches import Patch, PatchTarget, patch_problems
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.render import render
from rayllm_ctl.render.go_form import go_text
from rayllm_ctl.render.patches import patched
from rayllm_ctl.render.schema import schema_problems
from tests.render.drawn import for_planned
from tests.render.plans import H100, plan
from tests.render.test_render import GPU

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen"}, "spec": {"type": "ClusterIP"}}
POLICY = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "qwen"}, "spec": {}}


@pytest.mark.parametrize(
    ("target", "changed"),
    [
        (PatchTarget(kind="Service"), [True, False]),
        (PatchTarget(name="qwen"), [True, True]),
        (PatchTarget(group=""), [True, False]),
        (PatchTarget(group="networking.k8s.io", version="v1"), [False, True]),
        (PatchTarget(version="v1"), [True, True]),
    ],
)
def test_a_target_selects_objects(target: PatchTarget, changed: list[bool]) -> None:
    objects = patched([SERVICE, POLICY], [Patch(target, {"metadata": {"labels": {"a": "b"}}})])
    assert ["labels" in item["metadata"] for item in objects] == changed
    assert "labels" not in SERVICE["metadata"]


def test_later_patches_see_what_earlier_ones_did() -> None:
    first = Patch(PatchTarget(kind="Service"), {"spec": {"type": "LoadBalancer"}})
    second = Patch(PatchTarget(kind="Service"), [{"op": "test", "path": "/spec/type", "value": "LoadBalancer"}])
    assert patched([SERVICE], [first, second])[0]["spec"] == {"type": "LoadBalancer"}
    with pytest.raises(UsageError):
        patched([SERVICE], [second, first])


@pytest.mark.parametrize(
    ("target", "patch", "message", "hints"),
    [
        (
            PatchTarget(kind="Servce"),
            {"a": 1},
            "spec.patches[0].target: matches no object (rendered: Service qwen, NetworkPolicy qwen)",
            ("did you mean Service?",),
        ),
        (
            PatchTarget(kind="Service"),
            [{"op": "remove", "path": "/spec/typ"}],
            'spec.patches[0].patch[0].path: /spec/typ does not exist: there is no "typ"',
            ("did you mean type?",),
        ),
        (
            PatchTarget(kind="Service"),
            {"spec": {"ports": [{"name": "x"}]}},
            "spec.patches[0].patch.spec.ports[0]: requires port: items of ports are merged by it",
            (),
        ),
        (
            PatchTarget(kind="Service"),
            {"metadata": {"annotations": 128}},
            "spec.patches[0].patch: metadata.annotations of Service qwen must be an object",
            (),
        ),
        (
            PatchTarget(kind="Service"),
            {"metadata": {"name": "other"}},
            "spec.patches[0].patch: metadata.name of Service qwen cannot be changed",
            (),
        ),
    ],
)
def test_a_patch_that_cannot_be_applied(target: PatchTarget, patch: Any, message: str, hints: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as raised:
        patched([SERVICE, POLICY], [Patch(target, patch)])
    assert (raised.value.message, raised.value.hints) == (message, hints)


SPEC = PatchTarget(kind="RayService")


@pytest.mark.parametrize(
    ("patch", "where", "message"),
    [
        (Patch(PatchTarget(), {"a": 1}), "target", "requires at least one of kind, name, group and version"),
        (Patch(SPEC, {}), "patch", "expected a mapping (strategic merge) or a list of operations (JSON Patch), not"),
        (Patch(SPEC, "text"), "patch", "expected a mapping (strategic merge) or a list of operations (JSON Patch)"),
        (Patch(SPEC, {"a": float("inf")}), "patch", "contains characters or numbers that Kubernetes"),
        (Patch(SPEC, {"a": "\x00"}), "patch", "contains characters or numbers that Kubernetes rejects"),
        (Patch(SPEC, {"a": ["hf_" + "a" * 30]}), "patch", "a value looks like a credential"),
        (Patch(SPEC, ["x"]), "patch[0]", "expected a mapping with op and path"),
        (Patch(SPEC, [{"path": "/a"}]), "patch[0].op", "this value is not supported"),
        (Patch(SPEC, [{"op": "delete", "path": "/a"}]), "patch[0].op", '"delete" is not supported (supported values: '),
        (Patch(SPEC, [{"op": "add", "path": "/a"}]), "patch[0].value", "required by add"),
        (Patch(SPEC, [{"op": "move", "path": "/a"}]), "patch[0].from", "required by move"),
        (Patch(SPEC, [{"op": "remove", "path": "/a", "value": 1}]), "patch[0].value", "unknown field of remove"),
        (Patch(SPEC, [{"op": "remove", "path": "a"}]), "patch[0].path", "expected a JSON Pointer, such as /spec"),
    ],
)
def test_a_patch_that_is_wrong_by_itself(patch: Patch, where: str, message: str) -> None:
    [problem] = patch_problems((patch,))
    assert problem.where == f"spec.patches[0].{where}"
    assert problem.message.startswith(message)
    assert "hf_" not in problem.message


def form(spec: dict[str, Any], api_version: str = "ray.io/v1") -> Any:
    return go_text({"apiVersion": api_version, "spec": spec})["spec"]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({"requests": {"cpu": 0.1, "memory": "1024Mi"}}, {"requests": {"cpu": "100m", "memory": "1Gi"}}),
        ({"emptyDir": {"sizeLimit": "2048Mi", "medium": ""}}, {"emptyDir": {"sizeLimit": "2Gi"}}),
        ({"limits": {"cpu": "much"}}, {"limits": {"cpu": "much"}}),
        ({"nodeSelector": {}, "tolerations": [], "affinity": {}}, {"affinity": {}}),
        ({"nodeSelector": {"a": ""}}, {"nodeSelector": {"a": ""}}),
        ({"env": [{"name": "limits", "value": ""}]}, {"env": [{"name": "limits"}]}),
        ({"env": [{"name": "A", "value": None}]}, {"env": [{"name": "A"}]}),
        ({"hostNetwork": False, "automountServiceAccountToken": False}, {"automountServiceAccountToken": False}),
        ({"timeoutSeconds": 0, "terminationGracePeriodSeconds": 0}, {"terminationGracePeriodSeconds": 0}),
        ({"containers": [{"name": "a", "args": [""]}]}, {"containers": [{"name": "a", "args": [""], "resources": {}}]}),
        ({"template": {"spec": {}}}, {"template": {"metadata": {}, "spec": {}}}),
        ({"workerGroupSpecs": [{"minReplicas": 0}]}, {"workerGroupSpecs": [{"minReplicas": 0, "scaleStrategy": {}}]}),
    ],
)  # fmt: skip
def test_what_users_write_gets_the_form_of_the_operator(written: dict[str, Any], stored: dict[str, Any]) -> None:
    assert form(written) == stored
    assert form(stored) == stored


def test_other_kinds_are_not_written_back_and_only_their_quantities_change() -> None:
    assert form({"containers": [{"limits": {"cpu": "1000m"}, "tty": False}]}, "apps/v1") == {
        "containers": [{"limits": {"cpu": "1"}, "tty": False}]
    }


@for_planned
def test_what_is_rendered_has_that_form(case: Any) -> None:
    for manifest in render(case[1]):
        assert go_text(manifest) == manifest


def test_a_pod_template_is_merged_into_the_pods_of_its_role() -> None:
    sidecar = {"spec": {"containers": [{"name": "proxy", "image": "p:1"}], "terminationGracePeriodSeconds": 90}}
    label = {"metadata": {"labels": {"team": "search"}}}
    pods = Pods(head=PodOptions(pod_template=label), worker=PodOptions(pod_template=sidecar))
    manifest, *_ = render(plan(dataclasses.replace(GPU, pods=pods), H100, tensor=4))
    cluster = manifest["spec"]["rayClusterConfig"]
    assert cluster["headGroupSpec"]["template"]["metadata"]["labels"]["team"] == "search"
    assert len(cluster["headGroupSpec"]["template"]["spec"]["containers"]) == 1
    worker = cluster["workerGroupSpecs"][0]["template"]
    assert "team" not in worker["metadata"]["labels"]
    assert worker["spec"]["terminationGracePeriodSeconds"] == 90
    assert worker["spec"]["containers"][0]["name"] == "ray-worker"
    assert worker["spec"]["containers"][1] == {"name": "proxy", "image": "p:1", "resources": {}}


def test_a_pod_template_that_cannot_be_merged_is_named() -> None:
    pods = Pods(worker=PodOptions(pod_template={"spec": {"containers": [{"image": "p:1"}]}}))
    with pytest.raises(UsageError) as raised:
        render(plan(dataclasses.replace(GPU, pods=pods), H100, tensor=4))
    assert raised.value.message == (
        "spec.pods.worker.podTemplate.spec.containers[0]: requires name: items of containers are merged by it"
    )


def test_a_patch_of_a_plan_reaches_the_manifest() -> None:
    patch = Patch(PatchTarget(kind="RayService"), {"spec": {"rayClusterDeletionDelaySeconds": 5}})
    [manifest] = render(plan(dataclasses.replace(GPU, patches=(patch,)), H100, tensor=4))
    assert manifest["spec"]["rayClusterDeletionDelaySeconds"] == 5
    assert schema_problems(manifest) == []

"""manifests/gitops: what Argo CD and Flux say of every sample of tests/health, by the rules that they run there."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import celpy
import lupa.lua51
import pytest
import yaml
from celpy.adapter import json_to_cel

from rayllm_ctl.model.text.yaml_text import dump
from tests.conftest import Golden
from tests.health.cases import case_folders, expected, load_case

GITOPS = Path(__file__).parents[2] / "manifests" / "gitops"
KINDS = ("RayService", "RayCluster")
FAILURES = {"ValidationFailed", "InitializingTimeout", "ZeroServeEndpoints"}
FLUX = {"Healthy": "Current", "Suspended": "Current", "Degraded": "Failed", "Progressing": "InProgress"}


def argo(item: dict[str, Any]) -> str:
    """The state that health.lua returns."""
    return argo_result(item)[0]


def argo_result(item: dict[str, Any]) -> tuple[str, str]:
    """State and message that health.lua returns, with the libraries that Argo CD leaves to a script: base and table."""
    lua = lupa.lua51.LuaRuntime(register_eval=False, unpack_returned_tuples=True)
    keep = "{table=1, _G=1, ipairs=1, pairs=1, next=1, type=1, tostring=1, tonumber=1, error=1, assert=1}"
    lua.execute(f"local keep = {keep}; for name in pairs(_G) do if not keep[name] then _G[name] = nil end end")
    lua.globals()["obj"] = _table(lua, item)
    found = lua.execute((GITOPS / "argocd" / item["kind"] / "health.lua").read_text(encoding="utf-8"))
    assert found["message"], f"{item['kind']} {found['status']} without a message"
    return str(found["status"]), str(found["message"])


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: _table(lua, item) for key, item in value.items() if item is not None})
    if isinstance(value, list):
        return lua.table_from([_table(lua, item) for item in value])
    return value


@cache
def _programs(kind: str) -> list[tuple[str, Callable[[Any], Any]]]:
    [_, flux] = yaml.safe_load_all((GITOPS / "flux" / "qwen3-32b.yaml").read_text(encoding="utf-8"))
    [found] = [entry for entry in flux["spec"]["healthCheckExprs"] if entry["kind"] == kind]
    environment = celpy.Environment()
    order = (("InProgress", "inProgress"), ("Failed", "failed"), ("Current", "current"))
    return [(state, environment.program(environment.compile(found[key])).evaluate) for state, key in order]


def flux(item: dict[str, Any]) -> str:
    """The state by the order of RFC 0009 of fluxcd/flux2: inProgress, failed, current. What Flux itself concludes from
    generations is left out: the expressions have to hold without it."""
    complete = _without_nulls({"spec": {}, "status": {}, **item})
    variables = {name: json_to_cel(complete[name]) for name in ("metadata", "spec", "status")}
    return next((state for state, evaluate in _programs(item["kind"]) if evaluate(variables)), "InProgress")


def _without_nulls(value: Any) -> Any:
    """As the API server stores it."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _states(item: dict[str, Any]) -> list[str]:
    """The states of all applications and deployments."""
    status = item.get("status") or {}
    apps = [
        app
        for which in ("activeServiceStatus", "pendingServiceStatus")
        for app in ((status.get(which) or {}).get("applicationStatuses") or {}).values()
    ]
    return [part["status"] for app in apps for part in (app, *(app.get("serveDeploymentStatuses") or {}).values())]


def _is_stale(item: dict[str, Any]) -> bool:
    observed = (item.get("status") or {}).get("observedGeneration")
    return observed is None or observed < item["metadata"].get("generation", 0)


def _evidence(item: dict[str, Any]) -> bool:
    """Whether the object itself shows a failure."""
    conditions = (item.get("status") or {}).get("conditions", [])
    return any(
        (one["type"], one["status"]) == ("ReplicaFailure", "True")
        or (one["status"] == "False" and one.get("reason") in FAILURES)
        for one in conditions
    ) or bool({"DEPLOY_FAILED", "UNHEALTHY"} & set(_states(item)))


def _is_suspended(item: dict[str, Any]) -> bool:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    active = status.get("activeServiceStatus") or {}
    conditions = status.get("conditions", []) + ((active.get("rayClusterStatus") or {}).get("conditions") or [])
    types = {one["type"] for one in conditions if one["status"] == "True"}
    return bool(
        spec.get("suspend")
        or (spec.get("rayClusterConfig") or {}).get("suspend")
        or types & {"Suspended", "Suspending", "RayClusterSuspended", "RayClusterSuspending"}
    )


def _is_moving(item: dict[str, Any]) -> bool:
    """Whether the object shows that something is on its way."""
    conditions = (item.get("status") or {}).get("conditions", [])
    types = {one["type"] for one in conditions if one["status"] == "True"}
    return bool(types & {"UpgradeInProgress", "RollbackInProgress"} or set(_states(item)) - {"RUNNING", "HEALTHY"})


def items(folder: Path) -> list[dict[str, Any]]:
    """The RayServices and RayClusters of a sample."""
    return [dict(item) for item in load_case(folder).objects if item["kind"] in KINDS]


@cache
def states(text: str) -> tuple[str, str]:
    """What Argo CD and Flux say of an object in JSON. Most samples differ in other objects than these."""
    item = json.loads(text)
    return argo(item), flux(item)


def allowed(item: dict[str, Any], diagnosed: str) -> set[str]:
    """What Argo CD may say of an object of a sample, of which `status` says `diagnosed`."""
    if _is_suspended(item):
        found = {"Suspended"}
    elif item["metadata"].get("deletionTimestamp"):
        found = {"Progressing"}
    elif _evidence(item) and (item.get("status") or {}).get("observedGeneration", 0) in (
        0,
        item["metadata"]["generation"],
    ):
        found = {"Degraded"}
    elif _is_stale(item) or _is_moving(item):
        found = {"Progressing"}
    else:
        found = {"Healthy", "Progressing"}
    return found & {"Healthy"} if item["kind"] == "RayService" and diagnosed == "Ready" else found


def test_every_sample() -> None:
    wrong = {}
    for folder in case_folders():
        for item in items(folder):
            argo_says, flux_says = states(json.dumps(item))
            if argo_says not in allowed(item, expected(folder)["state"]) or flux_says != FLUX[argo_says]:
                wrong[folder.name, item["kind"]] = (argo_says, flux_says)
    assert wrong == {}


def test_a_change_that_the_operator_has_not_seen_is_progress() -> None:
    wrong = {}
    for folder in case_folders():
        for item in items(folder):
            seen = (item.get("status") or {}).get("observedGeneration")
            item["metadata"]["generation"] = 9
            item.get("spec", {}).pop("suspend", None)
            argo_says, flux_says = states(json.dumps(item))
            if argo_says not in ("Progressing", "" if seen else "Degraded") or flux_says == "Current":
                wrong[folder.name, item["kind"]] = (argo_says, flux_says)
    assert wrong == {}


APP = "status.activeServiceStatus.applicationStatuses.llm.status"
INGRESS = "status.activeServiceStatus.applicationStatuses.llm.serveDeploymentStatuses.OpenAiIngress.status"


def _head(reason: str) -> dict[str, Any]:
    return {"status.conditions": [{"type": "HeadPodReady", "status": "False", "reason": reason}]}


def _workers(wanted: int, ready: int) -> dict[str, Any]:
    return {"status.desiredWorkerReplicas": wanted, "status.readyWorkerReplicas": ready}


COPY = "status.activeServiceStatus.rayClusterStatus"
SUSPENDING = {"type": "RayClusterSuspending", "status": "True", "reason": "RayClusterSuspending", "message": ""}


def _not_ready(reason: str, observed: int = 2) -> dict[str, Any]:
    one = {"type": "Ready", "status": "False", "reason": reason, "message": "", "observedGeneration": observed}
    return {"status.conditions": [one]}


def _condition(type_: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "NonZeroServeEndpoints"}
    return {"status.conditions": [ready, {"type": type_, "status": "True", "message": ""}]}


def _of_cluster(type_: str, value: str, reason: str) -> dict[str, Any]:
    return {"status.conditions": [{"type": type_, "status": value, "reason": reason, "message": ""}]}


CLUSTER, SERVING = sorted(
    items(next(one for one in case_folders() if one.name == "healthy")), key=lambda one: one["kind"]
)


@pytest.mark.parametrize(
    ("base", "changes", "state"),
    [
        (SERVING, {}, "Healthy"),
        (SERVING, {APP: "DEPLOY_FAILED"}, "Degraded"),
        (SERVING, {APP: "UNHEALTHY"}, "Degraded"),
        (SERVING, {APP: "DEPLOYING"}, "Progressing"),
        (SERVING, {INGRESS: "UNHEALTHY"}, "Degraded"),
        (SERVING, {INGRESS: "UPSCALING"}, "Progressing"),
        (SERVING, {INGRESS: "DOWNSCALING"}, "Progressing"),
        (SERVING, {"status.pendingServiceStatus.applicationStatuses.llm.status": "DEPLOY_FAILED"}, "Degraded"),
        (SERVING, {"status.activeServiceStatus.applicationStatuses": {}}, "Progressing"),
        (SERVING, {"status.numServeEndpoints": 0}, "Progressing"),
        (SERVING, {"spec.suspend": True}, "Suspended"),
        (SERVING, {"spec.rayClusterConfig.suspend": True, **_not_ready("ZeroServeEndpoints")}, "Suspended"),
        (SERVING, {COPY: {"conditions": [SUSPENDING]}, **_not_ready("ZeroServeEndpoints")}, "Suspended"),
        (SERVING, {COPY: {"desiredWorkerReplicas": 2, "availableWorkerReplicas": 1}}, "Progressing"),
        (SERVING, {COPY: {"desiredWorkerReplicas": 1, "availableWorkerReplicas": 1}}, "Healthy"),
        (SERVING, {COPY: {"desiredWorkerReplicas": 1}}, "Progressing"),
        (SERVING, {"metadata.generation": 3}, "Progressing"),
        (SERVING, {"metadata.generation": 3, **_not_ready("ValidationFailed", 3)}, "Degraded"),
        (SERVING, {"metadata.generation": 3, **_not_ready("ValidationFailed", 2)}, "Progressing"),
        (SERVING, _condition("RollbackInProgress"), "Progressing"),
        (SERVING, _condition("Suspending"), "Suspended"),
        (SERVING, {"metadata.deletionTimestamp": "2026-03-01T12:09:00Z"}, "Progressing"),
        (CLUSTER, {}, "Healthy"),
        (CLUSTER, _head("ImagePullBackOff"), "Degraded"),
        (CLUSTER, _head("ContainersNotReady"), "Progressing"),
        (CLUSTER, {"metadata.labels": {}, **_workers(2, 1)}, "Progressing"),
        (CLUSTER, {"metadata.labels": {}, **_workers(2, 2)}, "Healthy"),
        (CLUSTER, {"spec.suspend": True}, "Suspended"),
        (CLUSTER, {"status.conditions": [SUSPENDING]}, "Suspended"),
        (CLUSTER, {"metadata.generation": 9}, "Progressing"),
        (CLUSTER, _of_cluster("HeadPodReady", "False", "Unknown"), "Progressing"),
        (CLUSTER, _of_cluster("ReplicaFailure", "True", ""), "Degraded"),
    ],
)  # fmt: skip
def test_single_changes(base: dict[str, Any], changes: dict[str, Any], state: str) -> None:
    item = copy.deepcopy(base)
    for path, value in changes.items():
        *way, last = path.split(".")
        at = item
        for step in way:
            at = at.setdefault(step, {})
        at[last] = value
    assert (argo(item), flux(item)) == (state, FLUX[state])


def test_the_config_map_of_argo_cd_has_the_scripts(request: pytest.FixtureRequest) -> None:
    groups = {"RayService": "ray.io", "RayCluster": "ray.io", "LLMService": "rayllm.io", "BatchJob": "rayllm.io"}
    data = {
        f"resource.customizations.health.{group}_{kind}": (GITOPS / "argocd" / kind / "health.lua").read_text("utf-8")
        for kind, group in groups.items()
    }
    labels = {"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"}
    metadata = {"name": "argocd-cm", "namespace": "argocd", "labels": labels}
    text = dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    Golden(GITOPS / "argocd", request.config).check("argocd-cm.yaml", text)


def test_the_pipelines_apply_what_is_there() -> None:
    [application] = yaml.safe_load_all((GITOPS / "argocd" / "application.yaml").read_text(encoding="utf-8"))
    [_, kustomization] = yaml.safe_load_all((GITOPS / "flux" / "qwen3-32b.yaml").read_text(encoding="utf-8"))
    for path in (application["spec"]["source"]["path"], kustomization["spec"]["path"]):
        assert (GITOPS.parents[1] / path / "kustomization.yaml").is_file()
    assert "ServerSideApply=true" in application["spec"]["syncPolicy"]["syncOptions"]


@pytest.mark.parametrize("path", sorted(GITOPS.parent.rglob("kustomization.yaml")), ids=lambda path: path.parent.name)
def test_a_kustomization_lists_files_that_exist(path: Path) -> None:
    for resource in yaml.safe_load(path.read_text(encoding="utf-8"))["resources"]:
        assert (path.parent / resource).exists()


def _shown(item: dict[str, Any]) -> str:
    """What an object shows of its health, without times."""
    status = {key: value for key, value in (item.get("status") or {}).items() if key != "lastUpdateTime"}
    status["conditions"] = [
        {key: value for key, value in one.items() if key != "lastTransitionTime"}
        for one in status.get("conditions") or []
    ]
    return json.dumps([item["metadata"].get("generation"), item.get("spec", {}).get("suspend"), status], sort_keys=True)


def test_healthy_is_never_better_than_status_where_the_object_shows_it() -> None:
    """An object that is called Healthy beside a service that is not Ready looks in all that it shows like one of a
    service that is: pods, events and Serve alone tell the difference."""
    ready, others = set(), {}
    for folder in case_folders():
        for item in items(folder):
            if states(json.dumps(item))[0] == "Healthy":
                if expected(folder)["state"] == "Ready":
                    ready.add((item["kind"], _shown(item)))
                else:
                    others[folder.name, item["kind"]] = (item["kind"], _shown(item))
    assert {key: shown for key, shown in others.items() if shown not in ready} == {}

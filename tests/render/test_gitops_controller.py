"""manifests/gitops for the controller: what Argo CD, Flux and kstatus say of LLMServices and BatchJobs.

kstatus: sigs.k8s.io/cli-utils v0.37, pkg/kstatus/status (status.go, generic.go).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml
from celpy.adapter import json_to_cel

from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.specfile import load_file
from rayllm_ctl.workflows.plan.model import make_plan
from tests.render.test_gitops import FLUX, GITOPS, argo, argo_result

REPOSITORY = GITOPS / "repository"


def item(kind: str, status: dict[str, Any] | None, *, generation: int = 2, **spec: Any) -> dict[str, Any]:
    """An object of the second generation. status: its conditions and their reasons; None: there is none yet."""
    found: dict[str, Any] = {"kind": kind, "metadata": {"name": "a", "generation": generation}, "spec": spec}
    if status is not None:
        conditions = [
            {"type": type_, "status": value, "reason": reason, "message": "", "observedGeneration": 2}
            for type_, (value, reason) in status.items()
        ]
        found["status"] = {"observedGeneration": 2, "conditions": conditions}
    return found


def service(
    ready: str, reason: str, *, reconciling: str = "False", stalled: str = "False", **more: Any
) -> dict[str, Any]:
    """An LLMService with the conditions that everything goes by."""
    conditions = {
        "Planned": ("True", "fits"), "Applied": ("True", "Applied"), "Ready": (ready, reason),
        "Reconciling": (reconciling, reason), "Stalled": (stalled, reason if stalled == "True" else "AsExpected"),
    }  # fmt: skip
    return item("LLMService", conditions, **more)


def job(
    *, ended: str = "", reconciling: str = "False", stalled: str = "False", state: str = "", **more: Any
) -> dict[str, Any]:
    """A BatchJob. ended: the condition that says how it ended. state: that of its RayJob."""
    conditions = {
        "Applied": ("True", "Applied"), "Complete": (str(ended == "Complete"), "NotEnded"),
        "Failed": (str(ended == "Failed"), "NotEnded"), "Reconciling": (reconciling, "Running"),
        "Stalled": (stalled, "AsExpected"),
    }  # fmt: skip
    found = item("BatchJob", conditions, **more)
    return {**found, "status": {**found["status"], "state": state}} if state else found


def deleted(of: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(of)
    found["metadata"]["deletionTimestamp"] = "2026-03-01T12:09:00Z"
    return found


def kstatus(of: dict[str, Any]) -> str:
    """The state by the rules of kstatus for kinds that it does not know."""
    metadata, status = of["metadata"], of.get("status") or {}
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    for type_, state in (("Reconciling", "InProgress"), ("Stalled", "Failed")):
        if conditions.get(type_) == "True":
            return state
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


@cache
def _programs(kind: str) -> list[tuple[str, Callable[[Any], Any]]]:
    [_, kustomization] = yaml.safe_load_all((GITOPS / "flux" / "llm-prod.yaml").read_text(encoding="utf-8"))
    [found] = [entry for entry in kustomization["spec"]["healthCheckExprs"] if entry["kind"] == kind]
    environment = celpy.Environment()
    order = (("InProgress", "inProgress"), ("Failed", "failed"), ("Current", "current"))
    return [(state, environment.program(environment.compile(found[key])).evaluate) for state, key in order]


def flux(of: dict[str, Any]) -> str:
    """The state by the order of RFC 0009 of fluxcd/flux2: inProgress, failed, current."""
    variables = {name: json_to_cel(of.get(name, {})) for name in ("metadata", "spec", "status")}
    return next((state for state, evaluate in _programs(of["kind"]) if evaluate(variables)), "InProgress")


SAMPLES = [
    ("ready", service("True", "Ready"), "Healthy"),
    ("starts", service("False", "Progressing", reconciling="True"), "Progressing"),
    ("replaces replicas", service("True", "Ready", reconciling="True"), "Progressing"),
    ("does not fit", service("False", "InvalidSpec", stalled="True"), "Degraded"),
    ("waits for consent, and serves", service("True", "Ready", stalled="True"), "Degraded"),
    ("waits for GPUs", service("False", "InsufficientGPU"), "Degraded"),
    ("unknown", service("Unknown", "Unknown"), "Unknown"),
    ("suspended by another client", service("False", "Suspended"), "Suspended"),
    ("suspended", service("False", "Suspended", suspend=True), "Suspended"),
    ("suspended and invalid", service("False", "InvalidSpec", stalled="True", suspend=True), "Degraded"),
    ("planned", service("False", "PlanOnly", planOnly=True), "Suspended"),
    ("changed", service("True", "Ready", generation=3), "Progressing"),
    ("changed and stalled before", service("False", "InvalidSpec", stalled="True", generation=3), "Progressing"),
    ("suspended a moment ago", service("True", "Ready", generation=3, suspend=True), "Progressing"),
    ("new", item("LLMService", None, generation=1), "Progressing"),
    ("deleted", deleted(service("True", "Ready")), "Progressing"),
    ("job runs", job(reconciling="True"), "Progressing"),
    ("job is complete", job(ended="Complete"), "Healthy"),
    ("job has failed", job(ended="Failed", stalled="True"), "Degraded"),
    ("job waits", job(reconciling="True", state="Stuck"), "Degraded"),
    ("job is suspended", job(reconciling="True", state="Suspended"), "Suspended"),
    ("job is stalled", job(stalled="True"), "Degraded"),
    ("job is planned", job(planOnly=True), "Suspended"),
    ("job changed", job(ended="Complete", generation=3), "Progressing"),
    ("job is new", item("BatchJob", None, generation=1), "Progressing"),
]

OF_KSTATUS = {
    # Without a status nothing contradicts it.
    "new": "Current", "job is new": "Current",
    # What is suspended or only planned is not ready, whatever was asked for.
    "suspended": "InProgress", "planned": "InProgress",
    # Ready=False is on its way for kstatus, which has a time limit instead.
    "waits for GPUs": "InProgress",
    "deleted": "Terminating",
}  # fmt: skip
"""Where the rules of kstatus alone say something else than the expressions for Flux."""


OPEN = ("waits for GPUs", "unknown", "suspended by another client", "job waits", "job is suspended")


@pytest.mark.parametrize(("of", "state"), [pytest.param(of, state, id=name) for name, of, state in SAMPLES])
def test_argo_cd(of: dict[str, Any], state: str) -> None:
    assert argo(of) == state


@pytest.mark.parametrize(("name", "of", "state"), SAMPLES, ids=[name for name, _, _ in SAMPLES])
def test_flux_and_kstatus(name: str, of: dict[str, Any], state: str) -> None:
    """Flux has no word for what is not well and may still pass: its time limit ends the wait."""
    wanted = "InProgress" if name in OPEN else FLUX[state]
    assert flux(of) == wanted
    assert kstatus(of) == OF_KSTATUS.get(name, wanted)


def test_a_message_names_the_reason_and_the_evidence() -> None:
    of = service("False", "InsufficientGPU")
    ready = next(one for one in of["status"]["conditions"] if one["type"] == "Ready")
    ready["message"] = "pod/a-gpu-worker: no node has 4 free GPUs"
    assert argo_result(of)[1] == "InsufficientGPU: pod/a-gpu-worker: no node has 4 free GPUs"


def test_the_pipelines_apply_the_repository() -> None:
    application = yaml.safe_load((GITOPS / "argocd" / "llm-prod.yaml").read_text(encoding="utf-8"))
    [_, kustomization] = yaml.safe_load_all((GITOPS / "flux" / "llm-prod.yaml").read_text(encoding="utf-8"))
    for path in (application["spec"]["source"]["path"], kustomization["spec"]["path"]):
        assert (GITOPS.parents[1] / path).resolve() == REPOSITORY / "prod"


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_services_of_the_repository_fit(environment: str, tmp_path: Path) -> None:
    overlay = yaml.safe_load((REPOSITORY / environment / "kustomization.yaml").read_text(encoding="utf-8"))
    spec = yaml.safe_load((REPOSITORY / "base" / "qwen3-32b.yaml").read_text(encoding="utf-8"))
    [patch] = overlay["patches"]
    [operation] = yaml.safe_load(patch["patch"])
    assert (operation["op"], operation["path"]) == ("replace", "/spec/replicas")
    spec["spec"]["replicas"] = operation["value"]
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    assert make_plan(load_file(file), OFFLINE).verdict == "fits"

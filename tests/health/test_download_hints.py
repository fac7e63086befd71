"""What to type next after a download, by who made its Job: a command, `fetch`, or the controller."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from typing import Any

import pytest

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.fetchcontext import FetchContext
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.health.rules.modelstorage.downloads import download_findings
from rayllm_ctl.health.rules.modelstorage.hints import access_modes_hints, zone_hints
from rayllm_ctl.model.observed.health import Object, Snapshot
from tests.cli.test_hints import command, flags
from tests.health.cases import NAME, NAMESPACE, SAMPLES, load_case

JOB = "demo-model-0a1b2c3d"
FAILED = load_case(SAMPLES / "model-download-401")
OF_BATCH = load_case(SAMPLES / "job-model-access-denied")
BY_HUB, BY_BUCKET = "hf://meta-llama/Llama-3.1-8B", "s3://bucket/llama"
PAGE = "a token with access granted at https://huggingface.co/meta-llama/Llama-3.1-8B"
CONTINUES = "and the download continues where it stopped"
KUBECTL_LOGS = f"kubectl logs job/{JOB} -n team"


def owned(kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "rayllm.io/v1alpha1", "kind": kind, "name": NAME, "uid": "u", "controller": True}]


def failed(
    code: str, base: Snapshot = FAILED, *, source: str = BY_HUB, owner: str = "", served: bool = True,
    message: str = "m", hint: str = "",
) -> Snapshot:  # fmt: skip
    """A download that ended with `code`. served: whether what uses the model has been applied."""
    objects: list[Object] = []
    for item in copy.deepcopy(base.objects):
        assert isinstance(item, dict)
        name = str(item["metadata"]["name"])
        if item["kind"] == "Job" and name == JOB:
            item["metadata"]["annotations"] = {"rayllm.io/model-source": source}
            item["metadata"] |= {"ownerReferences": owned(owner)} if owner else {}
        if item["kind"] == "Pod" and name.startswith(JOB):
            told = json.dumps({"event": "failed", "code": code, "message": message, "hint": hint})
            item["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = told
        if served or item["kind"] not in ("RayService", "RayCluster", "RayJob"):
            objects.append(item)
    return dataclasses.replace(base, objects=tuple(objects))


def editable(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [item for item in snapshot.objects if isinstance(item, dict)]


def hints(snapshot: Snapshot, context: type[ServiceContext] = ServiceContext) -> list[str]:
    [found] = [one for one in download_findings(context(snapshot, NAME, NAMESPACE)) if JOB in one.cause.object]
    return [str(hint) for hint in found.cause.hint]


CASES: dict[str, tuple[type[ServiceContext], dict[str, Any], list[str]]] = {
    "deploy": (
        ServiceContext,
        {"served": False},
        [
            f"rayllm-ctl deploy … --hf-token-secret NAME/KEY    # {PAGE}",
            f"kubectl delete job {JOB} -n team    # the next deploy creates it again, {CONTINUES}",
            "rayllm-ctl logs demo -n team --download",
        ],
    ),
    "service": (
        ServiceContext,
        {},
        [
            f"rayllm-ctl deploy … --hf-token-secret NAME/KEY    # {PAGE}",
            f"kubectl delete job {JOB} -n team    # the next deploy creates it again, {CONTINUES}",
            "rayllm-ctl logs demo -n team --download",
        ],
    ),
    "submit": (
        JobContext,
        {"base": OF_BATCH, "served": False},
        [
            f"rayllm-ctl batch submit … --hf-token-secret NAME/KEY    # {PAGE}",
            f"kubectl delete job {JOB} -n team    # the next batch submit creates it again, {CONTINUES}",
            KUBECTL_LOGS,
        ],
    ),
    "fetch": (
        FetchContext,
        {"served": False},
        [
            f"rayllm-ctl fetch … --hf-token-secret NAME/KEY    # {PAGE}",
            f"rayllm-ctl fetch …    # the same command starts it again, {CONTINUES}",
            KUBECTL_LOGS,
        ],
    ),
    "LLMService": (
        ServiceContext,
        {"owner": "LLMService"},
        [
            f"kubectl edit llmservice demo -n team    # tokenSecret of the model: {PAGE}",
            f"kubectl delete job {JOB} -n team    # the controller creates it again, {CONTINUES}",
            "rayllm-ctl logs demo -n team --download",
        ],
    ),
    "BatchJob": (
        JobContext,
        {"base": OF_BATCH, "owner": "BatchJob"},
        [
            f"kubectl edit batchjob demo -n team    # tokenSecret of the model: {PAGE}",
            f"kubectl delete job {JOB} -n team    # the controller creates it again, {CONTINUES}",
            KUBECTL_LOGS,
        ],
    ),
}


@pytest.mark.parametrize("made_by", CASES)
def test_a_job_is_started_again_by_what_made_it(made_by: str) -> None:
    context, parts, expected = CASES[made_by]
    assert hints(failed("DownloadUnauthorized", **parts), context) == expected


@pytest.mark.parametrize(
    ("code", "source", "of_deploy", "of_fetch", "of_owner"),
    [
        (
            "DownloadNotFound", BY_HUB,
            "rayllm-ctl deploy … --model NAME --revision REVISION    # one that exists",
            "rayllm-ctl fetch …    # MODEL and --revision: one that exists",
            "kubectl edit llmservice demo -n team    # id and revision of the model: one that exists",
        ),
        (
            "DownloadNotFound", BY_BUCKET,
            "spec.storage.model.mirror.from, and the target's bucket: one that exists",
            "rayllm-ctl fetch …    # --from, and the bucket of --to: one that exists",
            "spec.storage.model.mirror.from, and the target's bucket: one that exists",
        ),
        (
            "DownloadUnauthorized", BY_BUCKET,
            "kubectl get secret -n team    # spec.storage.model.mirror.secret (source) or .to.objectStore.secret "
            "(target) names the one with the credentials",
            "kubectl get secret -n team    # --storage-secret names the one with the credentials",
            "kubectl get secret -n team    # spec.storage.model.mirror.secret (source) or .to.objectStore.secret "
            "(target) names the one with the credentials",
        ),
        (
            "DownloadThrottled", BY_HUB,
            "rayllm-ctl deploy … --hf-token-secret NAME/KEY    # the Hub's limits are higher for known users",
            "rayllm-ctl fetch … --hf-token-secret NAME/KEY    # the Hub's limits are higher for known users",
            "kubectl edit llmservice demo -n team    # tokenSecret of the model: the Hub's limits are higher for known "
            "users",
        ),
        (
            "DownloadUnreachable", BY_HUB,
            "rayllm-ctl deploy … --env HTTPS_PROXY=http://PROXY:PORT    # or HF_ENDPOINT of a mirror of the Hub",
            "rayllm-ctl fetch … --env HTTPS_PROXY=http://PROXY:PORT    # or HF_ENDPOINT of a mirror of the Hub",
            "kubectl edit llmservice demo -n team    # spec.engine.env: HTTPS_PROXY, or HF_ENDPOINT of a mirror of the "
            "Hub",
        ),
    ],
)  # fmt: skip
def test_what_helps_against_each_cause(code: str, source: str, of_deploy: str, of_fetch: str, of_owner: str) -> None:
    assert hints(failed(code, source=source))[0] == of_deploy
    assert hints(failed(code, source=source, served=False), FetchContext)[0] == of_fetch
    assert hints(failed(code, source=source, owner="LLMService"))[0] == of_owner


def test_the_fields_that_a_job_names_are_flags_of_fetch() -> None:
    told = failed("DownloadNotFound", hint="set spec.model.revision, or spec.storage.model.mirror.from")
    assert hints(told)[0] == "set spec.model.revision, or spec.storage.model.mirror.from"
    assert hints(told, FetchContext)[0] == "set --revision, or --from"


def test_a_fetch_has_no_section_for_its_claim() -> None:
    told = failed("DownloadFailed", message="[Errno 30] Read-only file system: '/models/x'")
    field = "spec.storage.model.mirror.to.claim.create.accessModes"
    assert hints(told)[0].startswith(field)
    assert hints(told, FetchContext)[0] == "kubectl get pvc models -n team -o jsonpath='{.spec.accessModes}'"


def test_a_claim_that_others_fill_is_not_created() -> None:
    found = failed("DownloadFailed")
    kept = tuple(item for item in editable(found) if not item["metadata"]["name"].startswith(JOB))
    context = ServiceContext(dataclasses.replace(found, objects=kept), NAME, NAMESPACE)
    for item in kept:
        if item["kind"] == "Pod":
            item["spec"].pop("initContainers")
    pod = context.pods[0]
    modes, zones = (str(one(context, pod, "models")[0]) for one in (access_modes_hints, zone_hints))
    assert modes == "name a claim with access mode ReadWriteMany in spec.storage.model.claim.name"
    assert zones.startswith("one of a file system that all zones reach")


def test_a_job_that_cannot_be_read_belongs_to_the_owner_of_what_uses_it() -> None:
    found = failed("DownloadUnauthorized")
    for item in editable(found):
        if item["kind"] == "RayService":
            item["metadata"]["ownerReferences"] = owned("LLMService")
    unread = dataclasses.replace(found, objects=tuple(item for item in found.objects if item["kind"] != "Job"))
    assert "the controller creates it again" in hints(unread)[-2]


def test_flags_of_serving_pods_are_not_suggested_for_a_download() -> None:
    found = failed("DownloadFailed")
    for item in editable(found):
        if item["kind"] == "Pod" and item["metadata"]["name"].startswith(JOB):
            item["spec"].pop("nodeName")
            why = "0/2 nodes are available: 2 node(s) had untolerated taint {dedicated: web}."
            item["status"] = {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
                ],
            }  # fmt: skip
        if item["kind"] == "Job":
            item["status"] = {}
        if item["kind"] == "Node":
            item["spec"] = {"taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]}
    nodes_to_free = "kubectl taint nodes cpu-1 dedicated=web:NoSchedule-"
    assert pod_hints(found, FetchContext) == [nodes_to_free]
    assert pod_hints(found, ServiceContext) == ["rayllm-ctl deploy … --toleration dedicated=web:NoSchedule"]
    for item in editable(found):
        if item["kind"] == "Node":
            item["spec"] = {}
            item["status"]["allocatable"]["memory"] = "1Mi"
    for context in (FetchContext, ServiceContext):
        assert not [hint for hint in pod_hints(found, context) if "--memory" in hint]


def pod_hints(snapshot: Snapshot, context: type[ServiceContext]) -> list[str]:
    [found] = download_findings(context(snapshot, NAME, NAMESPACE))
    return [str(hint) for hint in found.cause.hint]


@pytest.mark.parametrize("made_by", CASES)
@pytest.mark.parametrize("code", ["Unauthorized", "NotFound", "Throttled", "Unreachable", "NoSpace", "Corrupt"])
@pytest.mark.parametrize("source", [BY_HUB, BY_BUCKET])
def test_commands_and_flags_exist(made_by: str, code: str, source: str) -> None:
    context, parts, _ = CASES[made_by]
    for hint in hints(failed(f"Download{code}", source=source, **parts), context):
        typed = hint.partition("    # ")[0].split()
        if typed[0] != "rayllm-ctl":
            continue
        names = typed[1:3] if typed[1] == "batch" else typed[1:2]
        used = {word for word in typed if re.match("--?[a-z]", word)}
        assert used <= flags(command(*names)), hint
        assert typed[1] in ("logs", *(("fetch",) if made_by == "fetch" else ("deploy", "batch")))

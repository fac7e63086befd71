"""What is applied for each spec of the golden corpus is what `render -f` prints, but for owner and manager."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.controller.batch import BatchReconciler
from rayllm_ctl.controller.types import Key
from rayllm_ctl.model.kube.labels import CONTROLLER
from rayllm_ctl.model.kube.model_downloads import is_download
from rayllm_ctl.model.kube.owned import owner_reference
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from tests.controller.conftest import Controlled, complete_downloads
from tests.controller.mutate import status_problems

CORPUS = Path(__file__).parents[1] / "render"
SPECS = [*sorted((CORPUS / "specs").glob("*.yaml")), *sorted((CORPUS / "batchspecs").glob("*.yaml"))]
OF_FILES = {
    "applications.yaml": "spec.applications[0].code",
    "calibrated.yaml": "spec.load.calibration",
    "several-models.yaml": "spec.models[0].load.calibration",
}
"""Specs that name a file of the user's machine, and the field that does."""

WITH_GPUS = ("RayService", "RayCluster", "RayJob")


def _declared(controlled: Controlled, spec: Path) -> dict[str, Any]:
    """The LLMService or BatchJob of a file, as a user applies it."""
    document = _document(spec)
    return controlled.api.put(kind=document["kind"], metadata=document["metadata"], spec=document["spec"])


def _document(spec: Path) -> dict[str, Any]:
    """What a file says, to be run in namespace llm."""
    document = yaml.safe_load(spec.read_text(encoding="utf-8"))
    asked = {key: value for key, value in document["spec"].items() if key not in ("planOnly", "suspend")}
    return {**document, "metadata": {"name": document["metadata"]["name"], "namespace": "llm"}, "spec": asked}


def _meet_prerequisites(controlled: Controlled) -> None:
    """What single specs need of a cluster."""
    operator = controlled.api.stored("Deployment", "kuberay-operator", "kuberay-system")
    controlled.api.put(**{**operator, "metadata": {**operator["metadata"], "namespace": "ray-system"}})
    controlled.api.put(kind="GatewayClass", metadata={"name": "istio"})
    controlled.api.put(kind="RayCluster", metadata={"name": "gpu-pool", "namespace": "llm"})


def _store_models(controlled: Controlled, manifests: Iterable[Mapping[str, Any]]) -> None:
    """The claims and Secrets that pods mount or take variables from, and the StorageClasses of new claims."""
    texts = [item for item in manifests if item["kind"] in ("Job", "RayService", "RayCluster", "RayJob")]
    for name in {str(found) for item in texts for found in _found(item, "claimName")}:
        claim = {
            "spec": {
                "accessModes": ["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"], "volumeName": name,
                "resources": {"requests": {"storage": "9Ti"}},
            },
            "status": {"phase": "Bound", "capacity": {"storage": "9Ti"}, "accessModes": ["ReadWriteMany"]},
        }  # fmt: skip
        if ("PersistentVolumeClaim", name) not in {(item["kind"], item["metadata"]["name"]) for item in manifests}:
            controlled.api.put(kind="PersistentVolumeClaim", metadata={"name": name, "namespace": "llm"}, **claim)
    keys: dict[str, dict[str, str]] = {str(one["name"]): {} for item in texts for one in _found(item, "secretKeyRef")}
    for item in texts:
        for one in _found(item, "secretKeyRef"):
            keys[str(one["name"])][str(one["key"])] = "YQ=="
        for name in _found(item, "secretName"):
            keys.setdefault(str(name), {})["credentials.json"] = "e30="
    for name, data in keys.items():
        controlled.api.put(kind="Secret", metadata={"name": name, "namespace": "llm"}, data=data)
    controlled.api.put(kind="CSIDriver", metadata={"name": "nfs.csi.k8s.io"})
    for name in {str(found) for item in manifests for found in _found(item, "storageClassName")} | {"standard"}:
        default = {"storageclass.kubernetes.io/is-default-class": "true"} if name == "standard" else {}
        controlled.api.put(
            kind="StorageClass", metadata={"name": name, "annotations": default}, provisioner="nfs.csi.k8s.io"
        )


def _found(part: Any, key: str) -> Iterator[Any]:
    """The values of a key, wherever it is."""
    if isinstance(part, Mapping):
        yield from (value for name, value in part.items() if name == key)
        for value in part.values():
            yield from _found(value, key)
    elif isinstance(part, list):
        for value in part:
            yield from _found(value, key)


def _reconcile(controlled: Controlled, item: dict[str, Any]) -> None:
    key = Key(item["kind"], "llm", item["metadata"]["name"])
    controlled.look()
    if item["kind"] == "BatchJob":
        BatchReconciler(controlled.cluster, controlled.caches, OFFLINE).reconcile(key)
    else:
        controlled.reconciler.reconcile(key)


def _conditions(controlled: Controlled, item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    status = controlled.api.stored(item["kind"], item["metadata"]["name"])["status"]
    return {one["type"]: one for one in status["conditions"]}


def _children(controlled: Controlled, owner: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The objects that the controller applied, by kind and name, as it sent them."""
    sent = [one for one in controlled.api.requests if one.method == "PATCH" and "/status" not in one.path]
    found = {}
    for request in sent:
        if request.query.get("dryRun") or request.query.get("fieldManager") != CONTROLLER:
            continue
        item = request.json()
        owners = [] if item["kind"] == "PersistentVolumeClaim" else [owner_reference(owner)]
        assert item["metadata"].pop("ownerReferences", []) == owners
        assert item["metadata"].pop("namespace") == "llm"
        found[item["kind"], item["metadata"]["name"]] = item
    return found


def _printed(spec: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], Any]:
    file = folder / spec.name
    file.write_text(yaml.safe_dump(_document(spec)), encoding="utf-8")
    code = app.run(["render", "--offline", "-f", str(file)])
    out, err = capsys.readouterr()
    assert code == 0, err
    found = {}
    for item in yaml.safe_load_all(out):
        item["metadata"].pop("namespace", None)
        found[item["kind"], item["metadata"]["name"]] = item
    return found


@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if spec.name not in OF_FILES], ids=lambda spec: f"{spec.parent.name}/{spec.stem}"
)
def test_children_are_what_render_prints(
    controlled: Controlled, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = _printed(spec, tmp_path, capsys)
    _meet_prerequisites(controlled)
    _store_models(controlled, printed.values())
    owner = _declared(controlled, spec)
    _reconcile(controlled, owner)
    if any(is_download(item) for item in printed.values()):
        applied = _conditions(controlled, owner)["Applied"]
        assert (applied["status"], applied["reason"]) == ("False", "Downloading")
        assert not _children(controlled, owner).keys() & {(kind, owner["metadata"]["name"]) for kind in WITH_GPUS}
        complete_downloads(controlled.api)
        _reconcile(controlled, owner)
    applied = _conditions(controlled, owner)["Applied"]
    assert applied["status"] == "True", applied
    assert (
        status_problems(owner["kind"], controlled.api.stored(owner["kind"], owner["metadata"]["name"])["status"]) == []
    )
    assert _children(controlled, owner) == printed


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.name in OF_FILES], ids=lambda spec: spec.stem)
def test_a_spec_that_names_a_file_is_stalled(controlled: Controlled, spec: Path) -> None:
    owner = _declared(controlled, spec)
    _reconcile(controlled, owner)
    stalled = _conditions(controlled, owner)["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    assert OF_FILES[spec.name] in stalled["message"]
    assert _children(controlled, owner) == {}

"""The objects for a model's files: their order and names, and what a change of each of them does to the pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.model.kube.model_downloads import job_name, job_prefix
from rayllm_ctl.render import servingcode

SPECS = Path(__file__).parent / "specs"
KINDS = ["PersistentVolumeClaim", "ConfigMap", "ConfigMap", "Job", "RayService"]


def rendered(spec: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    assert app.run(["render", "--offline", "-f", str(file)]) == 0, capsys.readouterr().err
    return list(yaml.safe_load_all(capsys.readouterr().out))


def mirrored() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((SPECS / "storage-mirror-to-claim.yaml").read_text(encoding="utf-8"))
    return spec


def by_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (item for item in objects if item["kind"] == kind)
    return found


def test_what_others_need_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [item["kind"] for item in rendered(mirrored(), tmp_path, capsys)][: len(KINDS)] == KINDS


def test_a_job_is_named_after_its_spec_with_all_patches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = mirrored()
    job = by_kind(rendered(spec, tmp_path, capsys), "Job")
    assert job["metadata"]["name"] == job_name("qwen-model", job["spec"])
    spec["spec"]["patches"] = [
        {"target": {"kind": "Job", "name": "qwen-model"}, "patch": {"spec": {"backoffLimit": 2}}}
    ]
    patched = by_kind(rendered(spec, tmp_path, capsys), "Job")
    assert patched["spec"]["backoffLimit"] == 2
    assert patched["metadata"]["name"] == job_name("qwen-model", patched["spec"]) != job["metadata"]["name"]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"metadata": {"labels": "a/b"}}, 2, 'Job qwen-model: metadata.labels: "a/b" is not of type object'),
        ({"metadata": {"labels": ["a"]}}, 2, "Job qwen-model: metadata.labels: a list is not of type object"),
        ({"spec": "x"}, 2, 'spec: "x" is not of type object'),
        ({"spec": None}, 0, ""),  # rejected by the API server
    ],
)
def test_a_patch_may_leave_no_sound_job(
    patch: dict[str, Any], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = mirrored()
    spec["spec"]["patches"] = [{"target": {"kind": "Job"}, "patch": patch}]
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    assert app.run(["render", "--offline", "-f", str(file)]) == code
    said = capsys.readouterr().err
    assert message in said
    assert "internal error" not in said


@pytest.mark.parametrize(
    ("change", "job_changes", "pods_change"),
    [
        ({"from": "hf", "to": {"claim": {"name": "models", "create": {"size": "1Ti"}}}}, False, False),
        ({"from": "hf", "to": {"claim": {"name": "others"}}}, True, True),
        ({"from": "hf", "to": {"claim": {"name": "models", "path": "x"}}}, True, True),
    ],
)
def test_a_claim_that_grows_restarts_nothing(
    change: dict[str, Any], job_changes: bool, pods_change: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = mirrored()
    before = rendered(spec, tmp_path, capsys)
    spec["spec"]["storage"]["model"]["mirror"] = change
    after = rendered(spec, tmp_path, capsys)
    named = [by_kind(one, "Job")["metadata"]["name"] for one in (before, after)]
    clusters = [by_kind(one, "RayService")["spec"]["rayClusterConfig"] for one in (before, after)]
    assert (named[0] != named[1], clusters[0] != clusters[1]) == (job_changes, pods_change)


def test_other_code_is_another_job_and_the_same_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rendered(mirrored(), tmp_path, capsys)
    monkeypatch.setattr(servingcode, "digest", lambda _: "1" * 64)
    after = rendered(mirrored(), tmp_path, capsys)
    assert by_kind(before, "RayService") == by_kind(after, "RayService")
    assert by_kind(before, "Job")["metadata"]["name"] != by_kind(after, "Job")["metadata"]["name"]


def test_secrets_are_references_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = yaml.safe_load((SPECS / "storage-bucket-to-bucket.yaml").read_text(encoding="utf-8"))
    objects = rendered(spec, tmp_path, capsys)
    assert [item for item in objects if item["kind"] == "ConfigMap" and 'minio"' in str(item.get("data"))] == []
    (container,) = by_kind(objects, "Job")["spec"]["template"]["spec"]["containers"]
    keys = {one["name"]: one for one in container["env"]}
    assert keys["TARGET_AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"] == {
        "name": "minio", "key": "AWS_SECRET_ACCESS_KEY",
    }  # fmt: skip
    assert not [name for name in keys if name.startswith("SOURCE_")]


def test_names_stay_labels() -> None:
    names = {job_name(job_prefix("s" * 47, "m" * 63), {"a": n}) for n in range(3)}
    assert len(names) == 3
    assert max(map(len, names)) <= 63
    assert job_name(job_prefix("s" * 47, "m" * 63), {}) != job_name(job_prefix("s" * 47, "m" * 62 + "x"), {})


def test_the_code_is_what_it_imports_without_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = servingcode.storage_files()
    assert "rayllm_ctl/serving/storage/__init__.py" in found
    assert found["rayllm_ctl/__init__.py"] == found["rayllm_ctl/serving/__init__.py"] == ""
    assert not [name for name in found if "/gateway/" in name or "/batch/" in name]
    for others in (servingcode.files(), servingcode.models_files(True), servingcode.ingress_files()):
        assert not [name for name in others if name.startswith("rayllm_ctl/serving/storage/")]

"""Batch jobs: what `render` prints of each spec in batchspecs/ and of the examples, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.render import servingcode
from rayllm_ctl.specfile.form import spec_fields
from tests.conftest import Golden
from tests.render.test_specs import fields_below, used_below
from tests.tokens import without_token

SPECS = sorted((Path(__file__).parent / "batchspecs").glob("*.yaml"))
EXAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "batch").glob("*/batchjob.yaml"))


def rendered(file: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[list[dict[str, Any]], str]:
    code = app.run(["render", "--offline", "-f", str(file), *flags])
    out, err = capsys.readouterr()
    assert code == 0, err
    return list(yaml.safe_load_all(out)), out


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_spec(spec: Path, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    oldest, *others = VERSIONS
    for version in others:
        objects, text = rendered(spec, capsys, "--kuberay-version", version)
        golden.check(f"batch/{spec.name}", text)
    assert rendered(spec, capsys, "--kuberay-version", oldest)[0] == without_token(objects)


@pytest.mark.parametrize("spec", EXAMPLES, ids=lambda path: path.parent.name)
def test_example(spec: Path, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = rendered(spec, capsys)
    golden.check(f"batch/example-{spec.parent.name}.yaml", text)


def test_every_field_is_in_a_spec() -> None:
    used: set[str] = set()
    for spec in [*SPECS, *EXAMPLES]:
        used |= set(used_below(yaml.safe_load(spec.read_text(encoding="utf-8"))["spec"], "spec"))
    # Sections that services have as well are in their specs.
    storage = ("spec.storage.volumes[]", "spec.storage.model.", "spec.storage.caches.")
    shared = ("spec.engine.", "spec.pods.", "spec.ray.", "spec.scheduling.", *storage, "spec.patches[]")
    own = {field for field in fields_below(spec_fields(BatchJob), "spec") if not field.startswith(shared)}
    assert own - used == set()


def test_workers_come_and_go(capsys: pytest.CaptureFixture[str]) -> None:
    *_, job = rendered(EXAMPLES[0], capsys)[0]
    [group] = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (0, 4)
    assert job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_a_second_engine_never_fits_on_a_worker_without_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    objects, _ = rendered(next(spec for spec in SPECS if spec.stem == "prompts-on-cpu"), capsys)
    settings = json.loads(objects[1]["data"]["settings.json"])["engine"]
    engine = settings["placementGroup"]["bundle_per_worker"]["CPU"] * settings["kwargs"]["tensor_parallel_size"]
    [group] = objects[2]["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert engine < int(group["rayStartParams"]["num-cpus"]) < 2 * engine
    assert settings["kwargs"]["distributed_executor_backend"] == "mp"


def test_secrets_are_references_only(capsys: pytest.CaptureFixture[str]) -> None:
    objects, text = rendered(next(spec for spec in EXAMPLES if spec.parent.name == "summarize"), capsys)
    job = objects[-1]["spec"]
    assert "s3-credentials" not in objects[1]["data"]["settings.json"]
    assert "s3-credentials" not in json.dumps(job["submitterPodTemplate"])
    for template in (job["rayClusterSpec"]["headGroupSpec"], job["rayClusterSpec"]["workerGroupSpecs"][0]):
        variables = {one["name"]: one for one in template["template"]["spec"]["containers"][0]["env"]}
        assert variables["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"]["name"] == "s3-credentials"
    assert "AWS_SECRET_ACCESS_KEY" in text


def test_the_code_of_services_is_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for of_services in (servingcode.files(), servingcode.models_files(True), servingcode.ingress_files()):
        assert not [name for name in of_services if name.startswith("rayllm_ctl/serving/batch/")]
    shipped = servingcode.batch_files()
    own = ("rayllm_ctl/serving/batch/", "rayllm_ctl/serving/buckets/")
    others = {name: text for name, text in shipped.items() if not name.startswith(own)}
    assert others == {"rayllm_ctl/__init__.py": "", "rayllm_ctl/serving/__init__.py": ""}


def test_a_job_on_a_raycluster_of_others_can_be_patched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = yaml.safe_load((Path(__file__).parent / "batchspecs" / "on-a-cluster.yaml").read_text(encoding="utf-8"))
    document["spec"]["patches"] = [
        {"target": {"kind": "RayJob"}, "patch": {"metadata": {"labels": {"team": "search"}}}}
    ]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    *_, job = rendered(file, capsys)[0]
    assert job["metadata"]["labels"]["team"] == "search"
    assert "rayClusterSpec" not in job["spec"]
